#include "text/corpus/prepare.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "core/base/json.h"
#include "text/corpus/ordered_work.h"
#include "text/corpus/prepare_state.h"
#include "text/corpus/records.h"

namespace twobw::corpus {
namespace {

// Bytes of text in flight; its tokens take up to four times as much.
constexpr std::size_t kBudget = std::size_t{32} << 20;
constexpr int kMostWorkers = 32;

// Large enough to amortize the handover to a thread, small enough that many can wait.
constexpr std::size_t kChunkBytes = std::size_t{1} << 18;
constexpr std::size_t kChunkParts = std::size_t{1} << 14;

// Consecutive parts of one input: their text, or after encode_chunk() their tokens, part after part.
struct Chunk {
  struct Part {
    std::size_t bytes;
    std::int64_t line;
    bool ends_document;
  };
  std::size_t input = 0;
  std::string text;
  std::vector<std::byte> tokens;
  std::vector<Part> parts;
  std::int64_t position = 0;  // bytes of the input read so far
  bool ends_input = false;

  std::size_t bytes() const { return text.size() + parts.size() * sizeof(Part); }
};

// Splits inputs into chunks.
class ChunkReader {
 public:
  // Starts with the input `first`. `inputs` must outlive the reader.
  ChunkReader(const std::vector<Input>& inputs, const DocumentOptions& options, std::size_t first)
      : inputs_(inputs), options_(options), input_(first) {}

  // Returns nothing at the end. Throws InputError.
  std::optional<Chunk> next() {
    if (input_ == inputs_.size()) return std::nullopt;
    if (!reader_) reader_ = read_documents(inputs_[input_], options_);
    Chunk chunk;
    chunk.input = input_;
    while (chunk.text.size() < kChunkBytes && chunk.parts.size() < kChunkParts) {
      const std::optional<Part> part = reader_->next();
      if (!part) {
        chunk.ends_input = true;
        break;
      }
      chunk.text += part->text;
      chunk.parts.push_back({part->text.size(), part->line, part->ends_document});
    }
    chunk.position = reader_->position();
    if (chunk.ends_input) {
      reader_.reset();
      ++input_;
    }
    return chunk;
  }

 private:
  const std::vector<Input>& inputs_;
  DocumentOptions options_;
  std::size_t input_;
  std::unique_ptr<DocumentReader> reader_;
};

// Appends tokens as uint16 or int32.
void append_tokens(const std::vector<tokenizer::Id>& ids, TokenType type, std::vector<std::byte>& out) {
  const std::size_t begin = out.size(), width = token_bytes(type);
  out.resize(begin + ids.size() * width);
  std::byte* at = out.data() + begin;
  if (type == TokenType::kInt32) {
    if (!ids.empty()) std::memcpy(at, ids.data(), ids.size() * width);
    return;
  }
  TWOBW_ASSERT(type == TokenType::kUint16, "tokens are written as uint16 or int32, not {}", name(type));
  for (const tokenizer::Id id : ids) {
    const auto narrow = static_cast<std::uint16_t>(id);
    std::memcpy(at, &narrow, width);
    at += width;
  }
}

// Thread-safe. The type must hold every id of the tokenizer. Throws InputError.
Chunk encode_chunk(Chunk chunk, const Input& input, const DocumentOptions& options,
                   const tokenizer::Tokenizer& tokenizer, TokenType type) {
  const std::string all = std::exchange(chunk.text, {});
  std::size_t begin = 0;
  std::vector<tokenizer::Id> ids;
  for (Chunk::Part& part : chunk.parts) {
    std::string_view text = std::string_view(all).substr(begin, part.bytes);
    begin += part.bytes;
    std::string unquoted;
    if (input.format == Format::kJsonl) {
      unquoted = field_text(text, options.field, fmt::format("{}:{}", input.path, part.line));
      text = unquoted;
    }
    const std::size_t before = chunk.tokens.size();
    while (!text.empty()) {
      const std::size_t length = piece_length(text);
      ids.clear();
      tokenizer.encode(text.substr(0, length), ids);
      append_tokens(ids, type, chunk.tokens);
      text.remove_prefix(length);
    }
    part.bytes = chunk.tokens.size() - before;
  }
  return chunk;
}

int worker_count(int asked) {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return std::clamp(asked > 0 ? asked : cores, 1, kMostWorkers);
}

class Preparation {
 public:
  Preparation(const PrepareOptions& options, const std::function<void(const PrepareProgress&)>& report)
      : options_(options),
        report_(report),
        tokenizer_(tokenizer::load_tokenizer(options.tokenizer)),
        type_(type_for_vocabulary(tokenizer_->vocab_size())),
        end_of_text_(find_end_of_text(options, *tokenizer_)),
        inputs_(list_inputs(options.inputs, options.format)) {
    check_out(options, inputs_);
    if (end_of_text_) append_tokens({*end_of_text_}, type_, end_bytes_);
    for (const Input& input : inputs_) total_bytes_ += input.bytes;
  }

  PrepareResult run() {
    open();
    try {
      encode_inputs();
    } catch (...) {
      save_what_is_finished();
      throw;
    }
    const bool by_position = is_one_set_empty();
    if (by_position) split_by_position();
    publish();
    return {type_,
            state_.train,
            options_.split.has_validation() ? std::optional(state_.validation) : std::nullopt,
            by_position,
            state_.empty,
            inputs_.size(),
            inputs_before_,
            total_bytes_,
            end_of_text_};
  }

 private:
  std::string prefix(bool validation) const {
    if (options_.one_set) return options_.out;
    return options_.out + (validation ? "-validation" : "-train");
  }

  // Opens the writers, at the beginning or after the last input of an interrupted run.
  void open() {
    const Json settings = describe_settings(options_, *tokenizer_, type_, end_of_text_);
    if (!options_.restart) {
      if (auto left = load_state(options_.out, settings, inputs_)) state_ = *std::move(left);
    }
    state_.settings = settings;
    inputs_before_ = state_.finished.size();
    for (const Input& input : state_.finished) finished_bytes_ += input.bytes;
    for (const bool validation : {false, true}) {
      if (validation && !options_.split.has_validation()) continue;
      if (state_.publishing) IndexedWriter::prepare_to_publish_again(prefix(validation));
      writers_[validation ? 1 : 0] = std::make_unique<IndexedWriter>(
          prefix(validation), type_, validation ? state_.validation : state_.train);
    }
    if (options_.restart) std::filesystem::remove(state_path(options_.out));
    saved_ = std::chrono::steady_clock::now();
  }

  void encode_inputs() {
    ChunkReader reader(inputs_, options_.documents, inputs_before_);
    document_ = state_.documents;
    empty_ = state_.empty;
    OrderedWork<Chunk, Chunk> work(
        {[&] { return reader.next(); }, [](const Chunk& chunk) { return chunk.bytes(); },
         [this](Chunk chunk) {
           const Input& input = inputs_[chunk.input];
           return encode_chunk(std::move(chunk), input, options_.documents, *tokenizer_, type_);
         },
         [this](const Chunk& chunk) { write(chunk); }},
        worker_count(options_.workers), kBudget);
    work.run();
  }

  void write(const Chunk& chunk) {
    std::span<const std::byte> tokens = chunk.tokens;
    for (const Chunk::Part& part : chunk.parts) {
      IndexedWriter& writer = *writers_[options_.split.is_validation(document_) ? 1 : 0];
      writer.append(tokens.first(part.bytes));
      tokens = tokens.subspan(part.bytes);
      if (!part.ends_document) continue;
      if (writer.document_tokens() == 0) {
        ++empty_;
      } else {
        writer.append(end_bytes_);
        writer.end_document();
      }
      ++document_;
    }
    if (chunk.ends_input) end_input(inputs_[chunk.input]);
    report(chunk.ends_input ? 0 : chunk.position);
  }

  void end_input(const Input& input) {
    state_.finished.push_back(input);
    state_.documents = document_;
    state_.empty = empty_;
    state_.train = writers_[0]->position();
    if (writers_[1]) state_.validation = writers_[1]->position();
    finished_bytes_ += input.bytes;
    const std::chrono::duration<double> since = std::chrono::steady_clock::now() - saved_;
    if (since.count() >= options_.save_seconds) save();
  }

  // The data before a position must be on the disk before the state names it.
  void save() {
    for (const auto& writer : writers_) {
      if (writer) writer->sync();
    }
    save_state(options_.out, state_);
    saved_ = std::chrono::steady_clock::now();
  }

  // Ignores errors: the caller rethrows the original one.
  void save_what_is_finished() noexcept {
    try {
      if (!state_.finished.empty()) save();
    } catch (const std::exception&) {
      return;
    }
  }

  void report(std::int64_t position) const {
    if (!report_) return;
    std::int64_t tokens = 0;
    for (const auto& writer : writers_) {
      if (writer) tokens += writer->position().tokens + writer->document_tokens();
    }
    report_({finished_bytes_ + position, total_bytes_, document_, tokens});
  }

  bool is_one_set_empty() const {
    return options_.split.has_validation() &&
           (state_.train.documents == 0) != (state_.validation.documents == 0);
  }

  // One set has all documents, in order.
  void split_by_position() {
    const std::int64_t tokens = state_.train.tokens + state_.validation.tokens;
    if (tokens < 2) {
      drop();
      fail_input("the {} inputs hold {} token, too few for two sets; give --validation 0", inputs_.size(),
                 tokens);
    }
    // If interrupted here, the next run starts over: the saved state does not know the moved tokens.
    std::filesystem::remove(state_path(options_.out));
    IndexedWriter &train = *writers_[0], &validation = *writers_[1];
    if (state_.train.documents == 0) validation.move_end(state_.validation.tokens, train);
    const double part = options_.split.part() * static_cast<double>(tokens);
    train.move_end(std::clamp<std::int64_t>(std::llround(part), 1, tokens - 1), validation);
    state_.train = train.position();
    state_.validation = validation.position();
  }

  // Removes the files of an unfinished run.
  void drop() const {
    std::filesystem::remove(state_path(options_.out));
    for (const bool validation : {false, true}) IndexedWriter::remove_partial(prefix(validation));
  }

  void publish() {
    if (state_.train.tokens + state_.validation.tokens == 0) {
      drop();
      fail_input("the {} inputs hold no text", inputs_.size());
    }
    state_.publishing = true;
    save();
    for (const auto& writer : writers_) {
      if (writer) writer->publish();
    }
    replace_text(options_.out + ".json", pretty(describe_result(state_, options_.split.has_validation())));
    drop();
  }

  const PrepareOptions& options_;
  const std::function<void(const PrepareProgress&)>& report_;
  std::unique_ptr<tokenizer::Tokenizer> tokenizer_;
  TokenType type_;
  std::optional<tokenizer::Id> end_of_text_;
  std::vector<Input> inputs_;
  std::vector<std::byte> end_bytes_;
  std::unique_ptr<IndexedWriter> writers_[2];  // train, validation
  PrepareState state_;                         // as of the last finished input
  std::int64_t document_ = 0, empty_ = 0;      // as of now
  std::int64_t finished_bytes_ = 0, total_bytes_ = 0;
  std::size_t inputs_before_ = 0;
  std::chrono::steady_clock::time_point saved_;
};

}  // namespace

PrepareResult prepare(const PrepareOptions& options,
                      const std::function<void(const PrepareProgress&)>& report) {
  return Preparation(options, report).run();
}

}  // namespace twobw::corpus
