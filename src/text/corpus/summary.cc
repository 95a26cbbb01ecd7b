#include "text/corpus/summary.h"

#include <algorithm>

#include "text/corpus/id_range.h"

namespace twobw::corpus {

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
