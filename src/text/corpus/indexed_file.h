// Megatron's token files (IndexedDataset): tokens in PREFIX.bin, their positions in PREFIX.idx.
//
// The index, little-endian and without padding:
//
//   "MMIDIDX\0\0"        9 bytes
//   version              uint64, 1
//   token type           uint8 (TokenType)
//   sequences n          uint64
//   document marks k     uint64, one more than the documents
//   lengths              n x int32, in tokens
//   pointers             n x int64, in bytes from the start of the .bin
//   documents            k x int64, the first sequence of each document, then n
//   modes                n x int8, only in multimodal data
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/mapped_file.h"
#include "text/tokenizer/tokenizer.h"

namespace twobw::corpus {

// Integer types, with Megatron's codes. Codes 6 and 7 are floating-point types.
enum class TokenType : std::uint8_t {
  kUint8 = 1,
  kInt8 = 2,
  kInt16 = 3,
  kInt32 = 4,
  kInt64 = 5,
  kUint16 = 8
};

// Calls `call` with a zero of the type.
template <typename Call>
auto with_number(TokenType type, const Call& call) {
  switch (type) {
    case TokenType::kUint8:
      return call(std::uint8_t{});
    case TokenType::kInt8:
      return call(std::int8_t{});
    case TokenType::kInt16:
      return call(std::int16_t{});
    case TokenType::kInt32:
      return call(std::int32_t{});
    case TokenType::kInt64:
      return call(std::int64_t{});
    case TokenType::kUint16:
      break;
  }
  return call(std::uint16_t{});
}

// Nothing: unknown code.
std::optional<TokenType> token_type(std::uint8_t code);

std::string_view name(TokenType type);
std::size_t token_bytes(TokenType type);

// Fills `out` with tokens from `at` on, which need not be aligned.
void read_tokens(TokenType type, const std::byte* at, std::span<std::int64_t> out);

// uint16 if all ids fit, else int32.
TokenType type_for_vocabulary(tokenizer::Id vocab_size);

// Thread-safe. The files must not shrink while they are open.
class IndexedFile {
 public:
  // `path` is the prefix, the .idx or the .bin. Checks the whole index: every sequence lies within the .bin,
  // after the previous one. Maps the files without copying. Throws InputError.
  explicit IndexedFile(const std::string& path);
  // From memory, which must outlive the object; `prefix` names the files in messages.
  IndexedFile(std::span<const std::byte> index, std::span<const std::byte> bin, std::string prefix);

  TokenType type() const { return type_; }
  std::int64_t sequences() const { return sequences_; }
  std::int64_t documents() const { return marks_ - 1; }
  std::int64_t tokens() const { return tokens_; }  // of all sequences
  bool has_modes() const { return modes_; }
  const std::string& prefix() const { return prefix_; }
  // Bytes of the .bin outside of all sequences.
  std::int64_t unused_bytes() const;

  std::int64_t length(std::int64_t sequence) const;
  // Range of the sequences of a document.
  std::pair<std::int64_t, std::int64_t> document(std::int64_t document) const;

  // Fills `out` with tokens of a sequence from `from` on.
  void read(std::int64_t sequence, std::int64_t from, std::span<std::int64_t> out) const;
  // Bytes of a sequence, possibly unaligned.
  std::span<const std::byte> raw(std::int64_t sequence) const;

  // Fills `out` from token `from` on of the stream, the concatenation of all sequences.
  void read_stream(std::int64_t from, std::span<std::int64_t> out) const;
  // End of the document of `token`, both as positions in the stream.
  std::int64_t document_end(std::int64_t token) const;
  // Contiguous parts of the stream in the .bin: one, unless bytes between sequences are unused.
  struct Stretch {
    std::int64_t first;  // position in the stream
    std::span<const std::byte> bytes;
  };
  std::span<const Stretch> stretches() const { return stretches_; }

 private:
  static std::unique_ptr<MappedFile> map(const std::string& what, const std::string& path);
  void check();
  void read_header();
  void check_sequences();
  void add_to_stretches(std::span<const std::byte> sequence);
  void check_documents() const;
  std::int64_t pointer(std::int64_t sequence) const;
  std::int64_t mark(std::int64_t index) const;
  std::int64_t first_token(std::int64_t sequence) const;  // position in the stream; also of the end

  std::string prefix_, index_path_;
  std::unique_ptr<MappedFile> index_file_, bin_file_;  // null: in memory
  std::span<const std::byte> index_, bin_;
  TokenType type_ = TokenType::kUint16;
  bool modes_ = false;
  std::int64_t sequences_ = 0, marks_ = 0, tokens_ = 0;
  std::vector<Stretch> stretches_;
  const std::byte *lengths_ = nullptr, *pointers_ = nullptr, *documents_ = nullptr;
};

// "x" of "x", "x.idx" and "x.bin".
std::string token_file_prefix(const std::string& path);
// True if a path of data names token files, not a text.
bool names_token_file(const std::string& path);

inline constexpr char kIndexMagic[] = "MMIDIDX\0";  // the terminating zero is the ninth byte
inline constexpr std::size_t kIndexMagicBytes = sizeof kIndexMagic;
inline constexpr std::size_t kIndexHeaderBytes = kIndexMagicBytes + 8 + 1 + 8 + 8;

}  // namespace twobw::corpus
