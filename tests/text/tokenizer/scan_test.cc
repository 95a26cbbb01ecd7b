#include "text/tokenizer/scan.h"

#include <gtest/gtest.h>

#include "tests/text/tokenizer/testing.h"

namespace twobw::tokenizer {
namespace {

using Words = std::vector<std::string>;

Words words(Pattern pattern, std::string_view text) {
  Words found;
  scan(pattern, text, character_classes(), [&](std::string_view word) { found.emplace_back(word); });
  return found;
}

TEST(Scan, Gpt2KeepsOneSpaceBeforeAWord) {
  EXPECT_EQ(words(Pattern::kGpt2, "Hello world  again"), (Words{"Hello", " world", " ", " again"}));
  EXPECT_EQ(words(Pattern::kGpt2, "a\n b \n"), (Words{"a", "\n", " b", " \n"}));
  EXPECT_EQ(words(Pattern::kGpt2, "a\n\nb"), (Words{"a", "\n", "\n", "b"}));
  EXPECT_EQ(words(Pattern::kGpt2, "x1,2 34!"), (Words{"x", "1", ",", "2", " 34", "!"}));
  EXPECT_EQ(words(Pattern::kGpt2, " \u00A0\u00A0x"), (Words{" \u00A0", "\u00A0", "x"}));
}

TEST(Scan, Llama3TakesASignBeforeAWordAndThreeDigits) {
  EXPECT_EQ(words(Pattern::kLlama3, "a 12345 (b)"), (Words{"a", " ", "123", "45", " (", "b", ")"}));
  EXPECT_EQ(words(Pattern::kLlama3, "(b \"c\tx"), (Words{"(b", " \"", "c", "\tx"}));
  EXPECT_EQ(words(Pattern::kLlama3, "I'M WE'LL '\u017Fx"), (Words{"I", "'M", " WE", "'LL", " '", "\u017Fx"}));
  EXPECT_EQ(words(Pattern::kLlama3, "'\u017Fx"), (Words{"'\u017F", "x"}));
}

TEST(Scan, WordsTogetherAreTheText) {
  for (const Pattern pattern : {Pattern::kNone, Pattern::kGpt2, Pattern::kLlama3, Pattern::kQwen2}) {
    for (std::uint32_t seed = 0; seed < 200; ++seed) {
      const std::string text = testing::wild_text(seed, 60);
      std::string together;
      for (const std::string& word : words(pattern, text)) {
        ASSERT_FALSE(word.empty());
        together += word;
      }
      ASSERT_EQ(together, text);
    }
  }
}

}  // namespace
}  // namespace twobw::tokenizer
