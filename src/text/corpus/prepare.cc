#include "text/corpus/prepare.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/output_file.h"
#include "text/corpus/encode.h"
#include "text/corpus/ordered_work.h"
#include "text/corpus/prepare_checks.h"
#include "text/corpus/prepare_state.h"
#include "text/tokenizer/load.h"

namespace twobw::corpus {
namespace {

// Of text in flight; its tokens take up to four times as much.
constexpr std::size_t kBudget = std::size_t{32} << 20;
constexpr int kMostWorkers = 32;

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

  // The writers, at the beginning or where an interrupted run left them.
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
    OrderedWork<Chunk, EncodedChunk> work(
        {[&] { return reader.next(); }, [](const Chunk& chunk) { return chunk.bytes(); },
         [this](const Chunk& chunk) {
           return encode_chunk(chunk, inputs_[chunk.input], options_.documents, *tokenizer_, type_);
         },
         [this](const EncodedChunk& chunk) { write(chunk); }},
        worker_count(options_.workers), kBudget);
    work.run();
  }

  void write(const EncodedChunk& chunk) {
    std::span<const std::byte> tokens = chunk.tokens;
    for (const EncodedChunk::Record& record : chunk.records) {
      IndexedWriter& writer = *writers_[options_.split.is_validation(document_) ? 1 : 0];
      writer.append(tokens.first(record.bytes));
      tokens = tokens.subspan(record.bytes);
      if (!record.ends_document) continue;
      if (writer.document_tokens() == 0) {
        ++empty_;
      } else {
        writer.append(end_bytes_);
        writer.end_document();
      }
      ++document_;
    }
    if (chunk.ends_input) end_input(inputs_[chunk.input]);
    tell(chunk.ends_input ? 0 : chunk.position);
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

  // What is before the positions must be on the disk before the state says so.
  void save() {
    for (const auto& writer : writers_) {
      if (writer) writer->sync();
    }
    save_state(options_.out, state_);
    saved_ = std::chrono::steady_clock::now();
  }

  // The failure that ends the run is the one to tell of.
  void save_what_is_finished() noexcept {
    try {
      if (!state_.finished.empty()) save();
    } catch (const std::exception&) {
      return;
    }
  }

  void tell(std::int64_t position) const {
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

  // The documents follow one another in their order, since one set has all of them.
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
