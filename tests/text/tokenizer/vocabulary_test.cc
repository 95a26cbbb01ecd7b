#include "text/tokenizer/vocabulary.h"

#include <gtest/gtest.h>

namespace twobw::tokenizer {
namespace {

// "text|#id|text"
std::string split(const std::vector<AddedToken>& tokens, std::string_view text,
                  AddedTokens::Normalize normalize = nullptr) {
  const AddedTokens added(tokens, std::move(normalize));
  std::string parts;
  const auto add = [&](const std::string& part) { parts += (parts.empty() ? "" : "|") + part; };
  added.split(
      text, [&](std::string_view part) { add(std::string(part)); },
      [&](Id id) { add("#" + std::to_string(id)); });
  return parts;
}

TEST(AddedTokens, TheLongestAtEachPlaceFromTheLeft) {
  const std::vector<AddedToken> tokens = {
      {.id = 1, .content = "<a>"}, {.id = 2, .content = "<a><b>"}, {.id = 3, .content = "b>x"}};
  EXPECT_EQ(split(tokens, "x<a>y"), "x|#1|y");
  EXPECT_EQ(split(tokens, "<a><b>x"), "#2|x");
  EXPECT_EQ(split(tokens, "<a><b"), "#1|<b");
  EXPECT_EQ(split(tokens, "<a<a>"), "<a|#1");
  EXPECT_EQ(split(tokens, ""), "");
  EXPECT_EQ(split({}, "x"), "x");
}

TEST(AddedTokens, StripSpaces) {
  EXPECT_EQ(split({{.id = 1, .content = "M", .strip_left = true}}, "a \u00A0M b"), "a|#1| b");
  EXPECT_EQ(split({{.id = 1, .content = "M", .strip_right = true}}, "a M \n b"), "a |#1|b");
  EXPECT_EQ(split({{.id = 1, .content = "M", .strip_left = true, .strip_right = true}}, "M  M"), "#1|#1");
}

TEST(AddedTokens, SingleWordsAreNotFoundInsideOthers) {
  const std::vector<AddedToken> tokens = {{.id = 1, .content = "ab", .single_word = true}};
  EXPECT_EQ(split(tokens, "ab ab. xab abx \u00E9ab (ab)"), "#1| |#1|. xab abx \u00E9ab (|#1|)");
}

TEST(AddedTokens, NormalizedTokensMatchTheNormalizedText) {
  const auto lower = [](std::string_view text) {
    std::string out(text);
    for (char& c : out) c = static_cast<char>(std::tolower(c));
    return out;
  };
  EXPECT_EQ(split({{.id = 1, .content = "AB", .normalized = true}}, "xAbY", lower), "x|#1|y");
  EXPECT_EQ(split({{.id = 1, .content = "AB"}}, "xAbAB", lower), "xab|#1");
}

}  // namespace
}  // namespace twobw::tokenizer
