// Statistics of a token file: the range of its ids, the lengths of its documents.
#pragma once

#include <cstdint>
#include <vector>

#include "text/corpus/indexed_file.h"

namespace twobw::corpus {

struct IdRange {
  std::int64_t least = 0, greatest = 0;
};

// Reads every token once, on `threads` threads (0: one per core, at most 16). Both ids are 0 for an empty
// file.
IdRange id_range(const IndexedFile& file, int threads = 0);

// Range of a type.
IdRange possible_ids(TokenType type);

struct Summary {
  // Lengths of documents in tokens; 0 without documents.
  std::int64_t shortest = 0, median = 0, longest = 0;
  double mean = 0;
  std::int64_t empty = 0;  // documents without tokens
  std::int64_t least_id = 0, greatest_id = 0;
};

// Reads every token once.
Summary summarize(const IndexedFile& file);

// At most `most` first tokens of a document.
std::vector<std::int64_t> document_tokens(const IndexedFile& file, std::int64_t document, std::int64_t most);
std::int64_t document_length(const IndexedFile& file, std::int64_t document);

}  // namespace twobw::corpus
