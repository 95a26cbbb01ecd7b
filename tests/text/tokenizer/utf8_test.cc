#include "text/tokenizer/utf8.h"

#include <gtest/gtest.h>

namespace twobw::tokenizer {
namespace {

TEST(Utf8, ReadsBackEveryCharacter) {
  for (char32_t code = 0; code < 0x110000; ++code) {
    if (code >= 0xD800 && code < 0xE000) continue;
    std::string text;
    append_character(code, text);
    const Character read = read_character(text.data(), text.data() + text.size());
    ASSERT_TRUE(read.valid);
    ASSERT_EQ(read.code, code);
    ASSERT_EQ(static_cast<std::size_t>(read.length), text.size());
    ASSERT_EQ(unfinished_bytes(text), 0u);
    for (std::size_t cut = 1; cut < text.size(); ++cut) ASSERT_EQ(unfinished_bytes(text.substr(0, cut)), cut);
  }
}

TEST(Utf8, ReplacesMaximalPrefixesOfCharacters) {
  EXPECT_EQ(replace_invalid("abc"), "abc");
  EXPECT_EQ(replace_invalid("\xC3"), "\uFFFD");
  EXPECT_EQ(replace_invalid("\xE2\x82"
                            "a"),
            "\uFFFDa");
  EXPECT_EQ(replace_invalid("\xF0\x9F\x98"), "\uFFFD");
  EXPECT_EQ(replace_invalid("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");            // a surrogate
  EXPECT_EQ(replace_invalid("\xC0\xAF"), "\uFFFD\uFFFD");                      // overlong
  EXPECT_EQ(replace_invalid("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");  // above U+10FFFF
}

TEST(Utf8, InvalidBytesAreNotUnfinished) {
  EXPECT_EQ(unfinished_bytes(""), 0u);
  EXPECT_EQ(unfinished_bytes("\x80"), 0u);
  EXPECT_EQ(unfinished_bytes("a\xFF"), 0u);
  EXPECT_EQ(unfinished_bytes("\xED\xA0"), 0u);
  EXPECT_EQ(unfinished_bytes("a\xE2\x82"), 2u);
}

}  // namespace
}  // namespace twobw::tokenizer
