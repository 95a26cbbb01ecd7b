// The least and the greatest id in a token file.
#pragma once

#include <cstdint>

#include "text/corpus/indexed_file.h"

namespace twobw::corpus {

struct IdRange {
  std::int64_t least = 0, greatest = 0;
};

// Reads every token once, on so many threads; 0: one for each core, at most 16. Both ids are 0 where there
// are no tokens.
IdRange id_range(const IndexedFile& file, int threads = 0);

// What numbers of this type can be.
IdRange possible_ids(TokenType type);

}  // namespace twobw::corpus
