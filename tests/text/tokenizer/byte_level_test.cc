#include "text/tokenizer/byte_level.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/text/tokenizer/testing.h"

namespace twobw::tokenizer {
namespace {

using testing::encoded;
using testing::tokens_of;
using Tokens = std::vector<std::string>;

TEST(ByteLevel, GivesBackEveryTextByteForByte) {
  const auto tokenizer = testing::from_json(testing::small_json());
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    const std::string text = testing::wild_text(seed, 80);
    const std::vector<Id> ids = encoded(*tokenizer, text);
    ASSERT_EQ(tokenizer->decode(ids), text);
    ASSERT_EQ(encoded(*tokenizer, text), ids);  // now from the cache
  }
}

TEST(ByteLevel, UsesItsMergesAndSpecialTokens) {
  const auto tokenizer = testing::from_json(testing::small_json());
  EXPECT_EQ(tokens_of(*tokenizer, " the dog"), (Tokens{"\u0120the", "\u0120dog"}));
  EXPECT_EQ(tokens_of(*tokenizer, " the<|endoftext|> the"),
            (Tokens{"\u0120the", "<|endoftext|>", "\u0120the"}));
  const Id end = *tokenizer->special().eos;
  EXPECT_EQ(end, tokenizer->vocab_size() - 1);
  EXPECT_TRUE(tokenizer->is_special(end));
  EXPECT_EQ(tokenizer->decode(std::vector<Id>{*tokenizer->id("\u0120the"), end}, true), " the");
  EXPECT_EQ(tokenizer->decode(std::vector<Id>{-1, 1 << 30}), "");
}

TEST(ByteLevel, EncodesOnManyThreads) {
  const auto tokenizer = testing::from_json(testing::small_json());
  const std::string text = testing::wild_text(5, 2000);
  const std::vector<Id> expected = encoded(*tokenizer, text);
  std::vector<std::vector<Id>> found(4);
  std::vector<std::thread> threads;
  for (std::vector<Id>& ids : found) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10; ++i) ids = encoded(*tokenizer, text);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<Id>& ids : found) EXPECT_EQ(ids, expected);
}

TEST(ByteLevel, BytesAreTheirOwnIds) {
  const auto tokenizer = load_tokenizer("bytes");
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all.push_back(static_cast<char>(byte));
  const std::vector<Id> ids = encoded(*tokenizer, all);
  EXPECT_EQ(ids.size(), 256u);
  EXPECT_EQ(ids[200], 200);
  EXPECT_EQ(tokenizer->decode(ids), all);
}

}  // namespace
}  // namespace twobw::tokenizer
