// Documents to tokens, a chunk of them at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "text/corpus/documents.h"
#include "text/corpus/token_type.h"
#include "text/tokenizer/tokenizer.h"

namespace twobw::corpus {

// Parts of one input that follow each other.
struct Chunk {
  struct Record {
    std::size_t begin, end;  // in the text
    std::int64_t line;
    bool ends_document;
  };
  std::size_t input = 0;
  std::string text;
  std::vector<Record> records;
  std::int64_t position = 0;  // how much of the input has been read
  bool ends_input = false;

  std::size_t bytes() const { return text.size() + records.size() * sizeof(Record); }
};

// Cuts inputs into chunks.
class ChunkReader {
 public:
  // From the input `first` on. `inputs` outlives it.
  ChunkReader(const std::vector<Input>& inputs, const DocumentOptions& options, std::size_t first)
      : inputs_(inputs), options_(options), input_(first) {}

  // Nothing: the end. Throws InputError.
  std::optional<Chunk> next();

 private:
  const std::vector<Input>& inputs_;
  DocumentOptions options_;
  std::size_t input_;
  std::unique_ptr<DocumentReader> reader_;
};

// The tokens of a chunk, in the file's type, record after record.
struct EncodedChunk {
  struct Record {
    std::size_t bytes;
    bool ends_document;
  };
  std::size_t input = 0;
  std::vector<std::byte> tokens;
  std::vector<Record> records;
  std::int64_t position = 0;
  bool ends_input = false;
};

// Safe from any thread. The type must hold every id of the tokenizer. Throws InputError.
EncodedChunk encode_chunk(const Chunk& chunk, const Input& input, const DocumentOptions& options,
                          const tokenizer::Tokenizer& tokenizer, TokenType type);

// In the file's type, uint16 or int32.
void append_tokens(const std::vector<tokenizer::Id>& ids, TokenType type, std::vector<std::byte>& out);

}  // namespace twobw::corpus
