#include "text/tokenizer/train_bpe.h"

#include <gtest/gtest.h>

#include "tests/text/tokenizer/testing.h"

namespace twobw::tokenizer {
namespace {

// tests/python/tokenizer_test.py compares the learned merges with those of Hugging Face's trainer.
TEST(TrainBpe, StopsAtTheMinimumCount) {
  WordCounts words({});
  words.add("abc");
  EXPECT_EQ(learn_bpe(words, 1000, 2).tokens.size(), 256u);
  EXPECT_EQ(learn_bpe(words, 1000, 1).tokens.size(), 258u);
}

TEST(TrainBpe, SpecialTokensAreNotLearned) {
  WordCounts words({"<|endoftext|>"});
  words.add("a<|endoftext|>a");
  EXPECT_EQ(words.counts().size(), 1u);
  EXPECT_EQ(words.counts().find("a")->second, 2);
}

TEST(TrainBpe, BothFormsOfItsFilesEncodeTheSame) {
  const testing::Folder folder;
  write_bpe(testing::learned(320), {"<|endoftext|>"}, folder.path());
  const auto json = load_tokenizer(folder.path());
  const auto plain = load_tokenizer(folder.file("vocab.json"));
  EXPECT_EQ(json->vocab_size(), plain->vocab_size());
  for (std::uint32_t seed = 0; seed < 50; ++seed) {
    const std::string text = testing::wild_text(seed, 50) + testing::kProse;
    ASSERT_EQ(testing::encoded(*json, text), testing::encoded(*plain, text));
  }
}

}  // namespace
}  // namespace twobw::tokenizer
