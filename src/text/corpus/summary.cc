#include "text/corpus/summary.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <thread>

namespace twobw::corpus {
namespace {

using Block = std::span<const std::byte>;  // whole tokens

constexpr IdRange kNothing{std::numeric_limits<std::int64_t>::max(),
                           std::numeric_limits<std::int64_t>::min()};

IdRange join(const IdRange& a, const IdRange& b) {
  return {std::min(a.least, b.least), std::max(a.greatest, b.greatest)};
}

// Scans an aligned copy that fits the cache, so that vector instructions apply.
template <typename Number>
IdRange range_of(Block block) {
  Number numbers[2048];
  Number least = std::numeric_limits<Number>::max(), greatest = std::numeric_limits<Number>::min();
  while (!block.empty()) {
    const std::size_t bytes = std::min(block.size(), sizeof numbers);
    std::memcpy(numbers, block.data(), bytes);
    block = block.subspan(bytes);
    for (const Number number : std::span(numbers).first(bytes / sizeof(Number))) {
      least = std::min(least, number);
      greatest = std::max(greatest, number);
    }
  }
  return {least, greatest};
}

// Blocks of 4 MiB, so that threads rarely compete for the next one.
std::vector<Block> blocks_of(const IndexedFile& file) {
  constexpr std::size_t kBytes = std::size_t{4} << 20;
  std::vector<Block> blocks;
  for (const IndexedFile::Stretch& stretch : file.stretches()) {
    for (std::size_t at = 0; at < stretch.bytes.size(); at += kBytes) {
      blocks.push_back(stretch.bytes.subspan(at, std::min(kBytes, stretch.bytes.size() - at)));
    }
  }
  return blocks;
}

}  // namespace

IdRange id_range(const IndexedFile& file, int threads) {
  if (file.tokens() == 0) return {};
  const std::vector<Block> blocks = blocks_of(file);
  const std::size_t wanted = threads > 0 ? static_cast<std::size_t>(threads)
                                         : std::clamp(std::thread::hardware_concurrency(), 1U, 16U);
  std::vector<IdRange> found(std::min(wanted, blocks.size()), kNothing);
  std::atomic<std::size_t> next = 0;
  const auto work = [&](IdRange& range) {
    for (std::size_t i = next++; i < blocks.size(); i = next++) {
      range = join(range, with_number(file.type(),
                                      [&](auto number) { return range_of<decltype(number)>(blocks[i]); }));
    }
  };
  {
    std::vector<std::jthread> others;
    for (std::size_t i = 1; i < found.size(); ++i) others.emplace_back([&, i] { work(found[i]); });
    work(found[0]);
  }
  IdRange range = kNothing;
  for (const IdRange& part : found) range = join(range, part);
  return range;
}

IdRange possible_ids(TokenType type) {
  return with_number(type, [](auto number) {
    using Limits = std::numeric_limits<decltype(number)>;
    return IdRange{Limits::min(), Limits::max()};
  });
}

std::int64_t document_length(const IndexedFile& file, std::int64_t document) {
  const auto [begin, end] = file.document(document);
  std::int64_t length = 0;
  for (std::int64_t i = begin; i < end; ++i) length += file.length(i);
  return length;
}

std::vector<std::int64_t> document_tokens(const IndexedFile& file, std::int64_t document, std::int64_t most) {
  const auto [begin, end] = file.document(document);
  std::vector<std::int64_t> tokens;
  for (std::int64_t i = begin; i < end && most > 0; ++i) {
    const std::int64_t count = std::min(most, file.length(i));
    const std::size_t before = tokens.size();
    tokens.resize(before + static_cast<std::size_t>(count));
    file.read(i, 0, std::span(tokens).subspan(before));
    most -= count;
  }
  return tokens;
}

Summary summarize(const IndexedFile& file) {
  Summary summary;
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(file.documents()));
  for (std::int64_t i = 0; i < file.documents(); ++i) {
    lengths[static_cast<std::size_t>(i)] = document_length(file, i);
  }
  if (!lengths.empty()) {
    const auto [least, most] = std::minmax_element(lengths.begin(), lengths.end());
    summary.shortest = *least;
    summary.longest = *most;
    summary.mean = static_cast<double>(file.tokens()) / static_cast<double>(lengths.size());
    summary.empty = std::count(lengths.begin(), lengths.end(), 0);
    const auto middle = lengths.begin() + static_cast<std::ptrdiff_t>(lengths.size() / 2);
    std::nth_element(lengths.begin(), middle, lengths.end());
    summary.median = *middle;
  }
  const IdRange ids = id_range(file);
  summary.least_id = ids.least;
  summary.greatest_id = ids.greatest;
  return summary;
}

}  // namespace twobw::corpus
