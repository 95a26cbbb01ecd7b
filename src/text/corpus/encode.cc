#include "text/corpus/encode.h"

#include <cstring>

#include "core/base/error.h"
#include "text/corpus/pieces.h"

namespace twobw::corpus {
namespace {

// Large enough to be worth handing to a thread, small enough that many can wait.
constexpr std::size_t kChunkBytes = std::size_t{1} << 18;
constexpr std::size_t kChunkRecords = std::size_t{1} << 14;

}  // namespace

std::optional<Chunk> ChunkReader::next() {
  if (input_ == inputs_.size()) return std::nullopt;
  if (!reader_) reader_ = read_documents(inputs_[input_], options_);
  Chunk chunk;
  chunk.input = input_;
  while (chunk.text.size() < kChunkBytes && chunk.records.size() < kChunkRecords) {
    const std::optional<Part> part = reader_->next();
    if (!part) {
      chunk.ends_input = true;
      break;
    }
    const std::size_t begin = chunk.text.size();
    chunk.text += part->text;
    chunk.records.push_back({begin, chunk.text.size(), part->line, part->ends_document});
  }
  chunk.position = reader_->position();
  if (chunk.ends_input) {
    reader_.reset();
    ++input_;
  }
  return chunk;
}

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

EncodedChunk encode_chunk(const Chunk& chunk, const Input& input, const DocumentOptions& options,
                          const tokenizer::Tokenizer& tokenizer, TokenType type) {
  EncodedChunk result{chunk.input, {}, {}, chunk.position, chunk.ends_input};
  result.records.reserve(chunk.records.size());
  std::vector<tokenizer::Id> ids;
  for (const Chunk::Record& record : chunk.records) {
    std::string_view text = std::string_view(chunk.text).substr(record.begin, record.end - record.begin);
    std::string unquoted;
    if (input.format == Format::kJsonl) {
      unquoted = field_text(text, options.field, fmt::format("{}:{}", input.path, record.line));
      text = unquoted;
    }
    const std::size_t before = result.tokens.size();
    while (!text.empty()) {
      const std::size_t length = piece_length(text);
      ids.clear();
      tokenizer.encode(text.substr(0, length), ids);
      append_tokens(ids, type, result.tokens);
      text.remove_prefix(length);
    }
    result.records.push_back({result.tokens.size() - before, record.ends_document});
  }
  return result;
}

}  // namespace twobw::corpus
