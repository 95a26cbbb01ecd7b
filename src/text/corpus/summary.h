// What a token file holds, in figures.
#pragma once

#include <cstdint>
#include <vector>

#include "text/corpus/indexed_file.h"

namespace twobw::corpus {

struct Summary {
  // Lengths of documents, in tokens; 0 where there are none.
  std::int64_t shortest = 0, median = 0, longest = 0;
  double mean = 0;
  std::int64_t empty = 0;  // documents without tokens
  std::int64_t least_id = 0, greatest_id = 0;
};

// Reads every token once.
Summary summarize(const IndexedFile& file);

// The first `most` tokens of a document.
std::vector<std::int64_t> document_tokens(const IndexedFile& file, std::int64_t document, std::int64_t most);
std::int64_t document_length(const IndexedFile& file, std::int64_t document);

}  // namespace twobw::corpus
