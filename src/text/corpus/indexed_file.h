// Megatron's token files: the tokens in PREFIX.bin, where they lie in PREFIX.idx (IndexedDataset).
//
// The index, little-endian and without padding:
//
//   "MMIDIDX\0\0"        9 bytes
//   version              uint64, 1
//   token type           uint8 (token_type.h)
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
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/mapped_file.h"
#include "text/corpus/token_type.h"

namespace twobw::corpus {

// Reads are safe from any thread at once. The files must not shrink while they are open.
class IndexedFile {
 public:
  // `path` is the prefix, the .idx or the .bin. The whole index is checked: afterwards every sequence lies
  // within the .bin, after the one before. Nothing is copied. Throws InputError.
  explicit IndexedFile(const std::string& path);
  // The same of files in memory, which outlive it; `prefix` names them in messages.
  IndexedFile(std::span<const std::byte> index, std::span<const std::byte> bin, std::string prefix);

  TokenType type() const { return type_; }
  std::int64_t sequences() const { return sequences_; }
  std::int64_t documents() const { return marks_ - 1; }
  std::int64_t tokens() const { return tokens_; }  // of all sequences
  bool has_modes() const { return modes_; }
  const std::string& prefix() const { return prefix_; }
  // Bytes of the .bin that no sequence covers.
  std::int64_t unused_bytes() const;

  std::int64_t length(std::int64_t sequence) const;
  std::int8_t mode(std::int64_t sequence) const;  // 0 where there are none
  // The first sequence of a document and one past its last.
  std::pair<std::int64_t, std::int64_t> document(std::int64_t document) const;

  // Tokens of a sequence from `from` on; as many as `out` holds must be there.
  void read(std::int64_t sequence, std::int64_t from, std::span<std::int64_t> out) const;
  // The same as they lie in the file, perhaps not aligned.
  std::span<const std::byte> raw(std::int64_t sequence) const;

  // The sequences one after another are one stream of tokens; of these, token `from` and those after it.
  void read_stream(std::int64_t from, std::span<std::int64_t> out) const;
  // One past the last token of the stream that is of the same document as `token`.
  std::int64_t document_end(std::int64_t token) const;
  // The parts of the stream that lie together in the .bin: one, unless bytes between sequences are unused.
  struct Stretch {
    std::int64_t first;  // token of the stream
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
  std::int64_t first_token(std::int64_t sequence) const;  // of the stream; also of the end, after the last

  std::string prefix_, index_path_;
  std::unique_ptr<MappedFile> index_file_, bin_file_;  // null: they are in memory
  std::span<const std::byte> index_, bin_;
  TokenType type_ = TokenType::kUint16;
  bool modes_ = false;
  std::int64_t sequences_ = 0, marks_ = 0, tokens_ = 0;
  std::vector<Stretch> stretches_;
  const std::byte *lengths_ = nullptr, *pointers_ = nullptr, *documents_ = nullptr;
};

// "x" of "x", "x.idx" and "x.bin".
std::string token_file_prefix(const std::string& path);
// Whether a path that may also be that of a text is taken for token files.
bool names_token_file(const std::string& path);

inline constexpr char kIndexMagic[] = "MMIDIDX\0";  // the literal's own zero is the ninth byte
inline constexpr std::size_t kIndexMagicBytes = sizeof kIndexMagic;
inline constexpr std::size_t kIndexHeaderBytes = kIndexMagicBytes + 8 + 1 + 8 + 8;

}  // namespace twobw::corpus
