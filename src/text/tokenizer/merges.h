// The merges of a BPE, from the forms in which files write them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/json_part.h"
#include "text/tokenizer/merge_table.h"
#include "text/tokenizer/vocabulary.h"

namespace twobw::tokenizer {

// In the order of their ranks. `document` begins complaints; every token and its merger must be in the
// vocabulary.
MergeTable read_merges(const Vocabulary& vocabulary, const std::vector<std::string>& lines,
                       const std::string& document);

// Of tokenizer.json: "a b" or ["a", "b"].
MergeTable read_merges(const Vocabulary& vocabulary, const JsonPart& list);

}  // namespace twobw::tokenizer
