#include "app/inference/text_stream.h"

#include <gtest/gtest.h>

#include "text/tokenizer/load.h"

namespace twobw::inference {
namespace {

class TextStreamTest : public testing::Test {
 protected:
  // What every byte lets out, between bars.
  std::string shown(const std::string& text, std::vector<std::string> stops = {}) {
    TextStream stream(*tokenizer_, std::move(stops), true);
    std::string out;
    for (const char byte : text) out += stream.push(static_cast<unsigned char>(byte)) + "|";
    stopped_ = stream.stopped();
    return out + stream.finish();
  }

  std::unique_ptr<tokenizer::Tokenizer> tokenizer_ = tokenizer::load_tokenizer("bytes");
  bool stopped_ = false;
};

TEST_F(TextStreamTest, GivesOutWholeCharacters) {
  EXPECT_EQ(shown("aé!"), "a||é|!|");
  EXPECT_EQ(shown("\xF0\x9F\x98\x80"), "|||\xF0\x9F\x98\x80|");
}

TEST_F(TextStreamTest, WhatIsNoCharacterIsReplaced) {
  EXPECT_EQ(shown("a\xFF"
                  "b"),
            "a|\xEF\xBF\xBD|b|");
  EXPECT_EQ(shown("a\xC3"), "a||\xEF\xBF\xBD");
}

TEST_F(TextStreamTest, EndsBeforeAStop) {
  EXPECT_EQ(shown("ab\n\ncd", {"\n\n"}), "a|b|||||");
  EXPECT_TRUE(stopped_);
}

TEST_F(TextStreamTest, HoldsBackWhatMayBeginAStop) {
  EXPECT_EQ(shown("xENxEND", {"END"}), "x|||ENx||||");
  EXPECT_TRUE(stopped_);
  EXPECT_EQ(shown("xEN", {"END"}), "x|||EN");
  EXPECT_FALSE(stopped_);
}

TEST_F(TextStreamTest, TheFirstOfSeveralStops) {
  EXPECT_EQ(shown("a.b;c", {";", "b"}), "a|.||||");
  EXPECT_EQ(begun_stop("xab", {"abc", "b!"}), 2);
  EXPECT_EQ(begun_stop("xab", {"!"}), 0);
}

}  // namespace
}  // namespace twobw::inference
