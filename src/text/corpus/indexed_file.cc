#include "text/corpus/indexed_file.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/base/error.h"
#include "core/base/text_file.h"

namespace twobw::corpus {

static_assert(kIndexMagicBytes == 9);
static_assert(std::endian::native == std::endian::little, "token files are little-endian");

namespace {

// Unaligned: the header has 34 bytes.
template <typename Number>
Number load(const std::byte* at) {
  Number number;
  std::memcpy(&number, at, sizeof number);
  return number;
}

}  // namespace

std::optional<TokenType> token_type(std::uint8_t code) {
  if ((code >= 1 && code <= 5) || code == 8) return static_cast<TokenType>(code);
  return std::nullopt;
}

std::string_view name(TokenType type) {
  constexpr std::string_view kNames[] = {"", "uint8", "int8", "int16", "int32", "int64", "", "", "uint16"};
  return kNames[static_cast<std::size_t>(type)];
}

std::size_t token_bytes(TokenType type) {
  return with_number(type, [](auto number) { return sizeof number; });
}

void read_tokens(TokenType type, const std::byte* at, std::span<std::int64_t> out) {
  with_number(type, [=](auto number) {
    const std::byte* from = at;
    for (std::int64_t& token : out) {
      std::memcpy(&number, from, sizeof number);
      from += sizeof number;
      token = number;  // NOLINT(bugprone-signed-char-misuse): int8 is a number here
    }
  });
}

TokenType type_for_vocabulary(tokenizer::Id vocab_size) {
  return vocab_size <= 65536 ? TokenType::kUint16 : TokenType::kInt32;
}

std::string token_file_prefix(const std::string& path) {
  const bool ending = path.size() > 4 && (path.ends_with(".idx") || path.ends_with(".bin"));
  return ending ? path.substr(0, path.size() - 4) : path;
}

bool names_token_file(const std::string& path) {
  return token_file_prefix(path) != path || (!is_file(path) && is_file(path + ".idx"));
}

IndexedFile::IndexedFile(const std::string& path)
    : prefix_(token_file_prefix(path)),
      index_path_(prefix_ + ".idx"),
      index_file_(map("token index", index_path_)),
      bin_file_(map("token file", prefix_ + ".bin")),
      index_(index_file_->bytes()),
      bin_(bin_file_->bytes()) {
  check();
}

IndexedFile::IndexedFile(std::span<const std::byte> index, std::span<const std::byte> bin, std::string prefix)
    : prefix_(std::move(prefix)), index_path_(prefix_ + ".idx"), index_(index), bin_(bin) {
  check();
}

std::unique_ptr<MappedFile> IndexedFile::map(const std::string& what, const std::string& path) {
  auto file = std::make_unique<MappedFile>(path);
  if (!file->problem().empty()) fail_input("{} '{}' cannot be read: {}", what, path, file->problem());
  return file;
}

void IndexedFile::check() {
  read_header();
  check_sequences();
  check_documents();
}

void IndexedFile::read_header() {
  const auto bytes = index_;
  if (bytes.size() < kIndexMagicBytes || std::memcmp(bytes.data(), kIndexMagic, kIndexMagicBytes) != 0) {
    fail_input("token index '{}' does not begin as Megatron's do (MMIDIDX)", index_path_);
  }
  if (bytes.size() < kIndexHeaderBytes) {
    fail_input("token index '{}' is truncated: it ends within its header, after {} bytes", index_path_,
               bytes.size());
  }
  const std::byte* at = bytes.data() + kIndexMagicBytes;
  const auto version = load<std::uint64_t>(at);
  if (version == std::uint64_t{1} << 56) {
    fail_input("token index '{}' is big-endian; it must be little-endian", index_path_);
  }
  if (version != 1) fail_input("token index '{}' has version {}; it must be 1", index_path_, version);
  const auto code = load<std::uint8_t>(at + 8);
  const auto type = token_type(code);
  if (!type) {
    fail_input("token index '{}' has token type {}; it must be 1 to 5 or 8, a type of whole numbers",
               index_path_, code);
  }
  type_ = *type;
  const auto sequences = load<std::uint64_t>(at + 9), marks = load<std::uint64_t>(at + 17);
  // Upper bounds, so that the sums below cannot overflow.
  if (sequences > bytes.size() / 12 || marks > bytes.size() / 8 ||
      kIndexHeaderBytes + sequences * 12 + marks * 8 > bytes.size()) {
    fail_input("token index '{}' is truncated: {} bytes are too few for {} sequences and {} document marks",
               index_path_, bytes.size(), sequences, marks);
  }
  const std::size_t rest = bytes.size() - kIndexHeaderBytes - sequences * 12 - marks * 8;
  if (rest != 0 && rest != sequences) {
    fail_input(
        "token index '{}' has {} bytes after its tables; there must be none, or a mode for each of {} "
        "sequences",
        index_path_, rest, sequences);
  }
  if (marks == 0)
    fail_input("token index '{}' has no document marks; it must have at least one", index_path_);
  sequences_ = static_cast<std::int64_t>(sequences);
  marks_ = static_cast<std::int64_t>(marks);
  modes_ = rest != 0;
  lengths_ = bytes.data() + kIndexHeaderBytes;
  pointers_ = lengths_ + sequences * 4;
  documents_ = pointers_ + sequences * 8;
}

void IndexedFile::check_sequences() {
  const auto room = static_cast<std::int64_t>(bin_.size());
  const auto width = static_cast<std::int64_t>(token_bytes(type_));
  std::int64_t end = 0;  // of the previous sequence
  for (std::int64_t i = 0; i < sequences_; ++i) {
    const std::int64_t begin = pointer(i), count = length(i);
    if (count < 0) fail_input("token index '{}': sequence {} has a length of {}", index_path_, i, count);
    if (begin < end) {
      fail_input(
          "token index '{}': sequence {} begins at byte {}, before the end of the one before it at {}; "
          "sequences must be in order and must not overlap",
          index_path_, i, begin, end);
    }
    if (begin > room || count > (room - begin) / width) {
      fail_input(
          "token file '{}.bin' is truncated: sequence {} has {} tokens from byte {} on, but the file has "
          "{} bytes",
          prefix_, i, count, begin, room);
    }
    add_to_stretches(raw(i));
    end = begin + count * width;
    tokens_ += count;
  }
}

void IndexedFile::add_to_stretches(std::span<const std::byte> sequence) {
  if (sequence.empty()) return;
  if (!stretches_.empty()) {
    auto& last = stretches_.back().bytes;
    if (last.data() + last.size() == sequence.data()) {
      last = {last.data(), last.size() + sequence.size()};
      return;
    }
  }
  stretches_.push_back({.first = tokens_, .bytes = sequence});
}

void IndexedFile::check_documents() const {
  std::int64_t before = 0;
  for (std::int64_t i = 0; i < marks_; ++i) {
    const std::int64_t at = mark(i);
    if (at < before || at > sequences_ || (i == 0 && at != 0)) {
      fail_input("token index '{}': document mark {} is {}; marks must rise from 0 to the {} sequences",
                 index_path_, i, at, sequences_);
    }
    before = at;
  }
  if (before != sequences_) {
    fail_input("token index '{}': the last document ends at sequence {} of {}", index_path_, before,
               sequences_);
  }
}

std::int64_t IndexedFile::unused_bytes() const {
  return static_cast<std::int64_t>(bin_.size()) - tokens_ * static_cast<std::int64_t>(token_bytes(type_));
}

std::int64_t IndexedFile::length(std::int64_t sequence) const {
  return load<std::int32_t>(lengths_ + sequence * 4);
}

std::int64_t IndexedFile::pointer(std::int64_t sequence) const {
  return load<std::int64_t>(pointers_ + sequence * 8);
}

std::int64_t IndexedFile::mark(std::int64_t index) const {
  return load<std::int64_t>(documents_ + index * 8);
}

std::pair<std::int64_t, std::int64_t> IndexedFile::document(std::int64_t document) const {
  TWOBW_ASSERT(document >= 0 && document < documents(), "document {} of {}", document, documents());
  return {mark(document), mark(document + 1)};
}

std::span<const std::byte> IndexedFile::raw(std::int64_t sequence) const {
  TWOBW_ASSERT(sequence >= 0 && sequence < sequences_, "sequence {} of {}", sequence, sequences_);
  return bin_.subspan(static_cast<std::size_t>(pointer(sequence)),
                      static_cast<std::size_t>(length(sequence)) * token_bytes(type_));
}

void IndexedFile::read(std::int64_t sequence, std::int64_t from, std::span<std::int64_t> out) const {
  const auto count = static_cast<std::int64_t>(out.size());
  const auto tokens = raw(sequence);
  TWOBW_ASSERT(from >= 0 && from <= length(sequence) && count <= length(sequence) - from,
               "{} tokens from {} of a sequence of {}", count, from, length(sequence));
  const std::byte* const at = tokens.data() + static_cast<std::size_t>(from) * token_bytes(type_);
  read_tokens(type_, at, out);
}

void IndexedFile::read_stream(std::int64_t from, std::span<std::int64_t> out) const {
  TWOBW_ASSERT(from >= 0 && from <= tokens_ && std::ssize(out) <= tokens_ - from,
               "{} tokens from {} of a stream of {}", out.size(), from, tokens_);
  auto stretch = std::ranges::upper_bound(stretches_, from, {}, &Stretch::first);
  for (stretch -= out.empty() ? 0 : 1; !out.empty(); ++stretch) {
    const auto rest =
        stretch->bytes.subspan(static_cast<std::size_t>(from - stretch->first) * token_bytes(type_));
    const std::size_t count = std::min(out.size(), rest.size() / token_bytes(type_));
    read_tokens(type_, rest.data(), out.first(count));
    out = out.subspan(count);
    from += static_cast<std::int64_t>(count);
  }
}

std::int64_t IndexedFile::first_token(std::int64_t sequence) const {
  if (sequence == sequences_) return tokens_;
  const auto begin_of = [](const Stretch& stretch) { return stretch.bytes.data(); };
  const std::byte* const at = bin_.data() + pointer(sequence);
  auto stretch = std::ranges::upper_bound(stretches_, at, {}, begin_of);
  if (stretch == stretches_.begin()) return 0;
  --stretch;
  // An empty sequence may lie beyond the end.
  const std::size_t before =
      std::min(static_cast<std::size_t>(at - begin_of(*stretch)), stretch->bytes.size());
  return stretch->first + static_cast<std::int64_t>(before / token_bytes(type_));
}

std::int64_t IndexedFile::document_end(std::int64_t token) const {
  TWOBW_ASSERT(token >= 0 && token < tokens_, "token {} of a stream of {}", token, tokens_);
  std::int64_t low = 0, high = marks_ - 1;  // range of the first mark beyond the token
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (first_token(mark(middle)) > token)
      high = middle;
    else
      low = middle + 1;
  }
  return first_token(mark(low));
}

}  // namespace twobw::corpus
