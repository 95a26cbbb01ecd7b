#include "text/tokenizer/splitter.h"

#include "core/base/error.h"
#include "core/base/json.h"

namespace twobw::tokenizer {
namespace {

struct Known {
  std::string_view expression;
  Pattern pattern;
};

constexpr Known kKnown[] = {
    {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", Pattern::kGpt2},
    {R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", Pattern::kGpt2},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     Pattern::kLlama3},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     Pattern::kQwen2},
};

}  // namespace

Pattern find_pattern(std::string_view expression, std::string_view document) {
  for (const Known& known : kKnown) {
    if (known.expression == expression) return known.pattern;
  }
  fail_input("{} splits by the pattern \"{}\", which is none of those of GPT-2, Llama 3 and Qwen 2", document,
             shown_name(expression));
}

}  // namespace twobw::tokenizer
