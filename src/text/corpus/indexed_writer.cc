#include "text/corpus/indexed_writer.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <utility>
#include <vector>

#include "core/base/error.h"

namespace twobw::corpus {
namespace {

// Lengths in the index are int32, so a longer document becomes several sequences. In the file of lengths the
// sign bit marks a sequence that continues the document of the previous one.
constexpr std::int64_t kLongestSequence = std::numeric_limits<std::int32_t>::max();
constexpr std::uint32_t kContinues = std::uint32_t{1} << 31;

std::string bin_partial(const std::string& prefix) {
  return prefix + ".bin.partial";
}

std::string lengths_partial(const std::string& prefix) {
  return prefix + ".lengths.partial";
}

template <typename Number>
void append_number(OutputFile& file, Number number) {
  file.append(std::as_bytes(std::span(&number, 1)));
}

struct Length {
  std::int32_t tokens;
  bool begins_document;
};

// Reads instead of mapping: lengths may exceed memory.
template <typename Use>
void each_length(const std::string& path, const Use& use) {
  std::ifstream file(path, std::ios::binary);
  std::vector<std::uint32_t> words(std::size_t{1} << 16);
  for (;;) {
    file.read(reinterpret_cast<char*>(words.data()), static_cast<std::streamsize>(words.size() * 4));
    const auto count = static_cast<std::size_t>(file.gcount()) / 4;
    for (std::size_t i = 0; i < count; ++i) {
      use(Length{static_cast<std::int32_t>(words[i] & ~kContinues), (words[i] & kContinues) == 0});
    }
    if (count < words.size()) return;
  }
}

}  // namespace

IndexedWriter::IndexedWriter(std::string prefix, TokenType type, const WritePosition& start)
    : prefix_(std::move(prefix)),
      type_(type),
      bin_(bin_partial(prefix_), start.bin_bytes),
      lengths_(lengths_partial(prefix_), start.length_bytes),
      position_(start) {}

void IndexedWriter::append(std::span<const std::byte> tokens) {
  const std::size_t width = token_bytes(type_);
  while (!tokens.empty()) {
    if (sequence_tokens_ == kLongestSequence) end_sequence();
    const auto left = static_cast<std::size_t>(kLongestSequence - sequence_tokens_);
    const std::size_t count = std::min(tokens.size() / width, left);
    TWOBW_ASSERT(count > 0, "{} bytes of tokens of {}", tokens.size(), width);
    bin_.append(tokens.first(count * width));
    tokens = tokens.subspan(count * width);
    sequence_tokens_ += static_cast<std::int64_t>(count);
    document_tokens_ += static_cast<std::int64_t>(count);
  }
}

void IndexedWriter::end_sequence() {
  append_number(lengths_, static_cast<std::uint32_t>(sequence_tokens_) | (continues_ ? kContinues : 0));
  sequence_tokens_ = 0;
  continues_ = true;
}

void IndexedWriter::end_document() {
  end_sequence();
  position_.tokens += document_tokens_;
  ++position_.documents;
  position_.bin_bytes = bin_.size();
  position_.length_bytes = lengths_.size();
  document_tokens_ = 0;
  continues_ = false;
}

void IndexedWriter::sync() {
  bin_.sync();
  lengths_.sync();
}

void IndexedWriter::append_copy(const std::string& bin, std::int64_t from, std::int64_t tokens) {
  const auto width = static_cast<std::int64_t>(token_bytes(type_));
  std::ifstream file(bin, std::ios::binary);
  file.seekg(from * width);
  std::vector<std::byte> block(static_cast<std::size_t>(std::min(tokens * width, std::int64_t{1} << 20)));
  for (std::int64_t left = tokens * width; left > 0;) {
    const std::int64_t count = std::min(left, std::ssize(block));
    if (!file.read(reinterpret_cast<char*>(block.data()), count)) fail_run("'{}' cannot be read", bin);
    append(std::span(block).first(static_cast<std::size_t>(count)));
    left -= count;
  }
}

void IndexedWriter::add_length(std::int64_t tokens) {
  document_tokens_ = tokens;
  for (; tokens > kLongestSequence; tokens -= kLongestSequence) {
    sequence_tokens_ = kLongestSequence;
    end_sequence();
  }
  sequence_tokens_ = tokens;
  end_document();
}

void IndexedWriter::move_end(std::int64_t tokens, IndexedWriter& to) {
  sync();
  const std::int64_t kept = position_.tokens - tokens;
  TWOBW_ASSERT(document_tokens_ == 0 && kept >= 0, "the last {} of {} tokens", tokens, position_.tokens);
  std::vector<std::int64_t> documents;
  each_length(lengths_.path(), [&](const Length& length) {
    if (length.begins_document) documents.push_back(0);
    documents.back() += length.tokens;
  });
  std::int64_t begin = 0;
  for (const std::int64_t document : documents) {
    const std::int64_t from = std::max(begin, kept);
    begin += document;
    if (from >= begin) continue;
    to.append_copy(bin_.path(), from, begin - from);
    to.end_document();
  }
  bin_.truncate(kept * static_cast<std::int64_t>(token_bytes(type_)));
  lengths_.truncate(0);
  position_ = {};
  for (const std::int64_t document : documents) {
    if (position_.tokens < kept) add_length(std::min(document, kept - position_.tokens));
  }
}

void IndexedWriter::write_index() {
  const auto width = static_cast<std::int64_t>(token_bytes(type_));
  const std::int64_t sequences = lengths_.size() / 4;
  OutputFile file(prefix_ + ".idx.partial", 0);
  file.append(std::as_bytes(std::span(kIndexMagic)));
  append_number(file, std::uint64_t{1});
  append_number(file, static_cast<std::uint8_t>(type_));
  append_number(file, static_cast<std::uint64_t>(sequences));
  append_number(file, static_cast<std::uint64_t>(position_.documents + 1));
  each_length(lengths_.path(), [&](const Length& length) { append_number(file, length.tokens); });
  std::int64_t pointer = 0;
  each_length(lengths_.path(), [&](const Length& length) {
    append_number(file, pointer);
    pointer += length.tokens * width;
  });
  TWOBW_ASSERT(pointer == bin_.size(), "lengths of {} bytes for {}", pointer, bin_.size());
  std::int64_t sequence = 0;
  each_length(lengths_.path(), [&](const Length& length) {
    if (length.begins_document) append_number(file, sequence);
    ++sequence;
  });
  append_number(file, sequences);
  file.sync();
}

void IndexedWriter::publish() {
  TWOBW_ASSERT(document_tokens_ == 0, "{} tokens of a document that has not ended", document_tokens_);
  sync();
  write_index();
  std::filesystem::remove(prefix_ + ".idx");  // never an old .idx with a new .bin
  twobw::publish(bin_.path(), prefix_ + ".bin");
  twobw::publish(prefix_ + ".idx.partial", prefix_ + ".idx");
}

void IndexedWriter::prepare_to_publish_again(const std::string& prefix) {
  if (!std::filesystem::exists(bin_partial(prefix)) && std::filesystem::exists(prefix + ".bin")) {
    twobw::publish(prefix + ".bin", bin_partial(prefix));
  }
}

void IndexedWriter::remove_partial(const std::string& prefix) {
  for (const std::string& path : {bin_partial(prefix), lengths_partial(prefix), prefix + ".idx.partial"}) {
    std::filesystem::remove(path);
  }
}

}  // namespace twobw::corpus
