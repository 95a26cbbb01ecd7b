#include "text/tokenizer/train_bpe.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/text/tokenizer/testing.h"
#include "text/tokenizer/byte_level.h"

namespace twobw::tokenizer {
namespace {

// By the definition: counts all pairs again for every merge.
std::vector<std::pair<Id, Id>> learned_by_definition(const WordCounts& words, std::size_t tokens,
                                                     std::int64_t least) {
  std::map<char32_t, std::uint8_t> order;
  for (int byte = 0; byte < 256; ++byte)
    order[visible(static_cast<std::uint8_t>(byte))] = static_cast<std::uint8_t>(byte);
  std::vector<std::string> known;
  for (const auto& [character, byte] : order) known.emplace_back(1, static_cast<char>(byte));
  std::vector<std::pair<std::vector<Id>, std::int64_t>> texts;
  for (const auto& [word, count] : words.counts()) {
    std::vector<Id> ids;
    for (const char byte : word) {
      ids.push_back(static_cast<Id>(std::ranges::find(known, std::string(1, byte)) - known.begin()));
    }
    texts.emplace_back(ids, count);
  }
  std::vector<std::pair<Id, Id>> merges;
  while (known.size() < tokens) {
    std::map<std::pair<Id, Id>, std::int64_t> counts;
    for (const auto& [ids, count] : texts) {
      for (std::size_t i = 0; i + 1 < ids.size(); ++i) counts[{ids[i], ids[i + 1]}] += count;
    }
    const auto best = std::ranges::max_element(counts, {}, [](const auto& entry) { return entry.second; });
    if (best == counts.end() || best->second < least) break;
    const auto [left, right] = best->first;
    merges.push_back(best->first);
    const std::string token = known[static_cast<std::size_t>(left)] + known[static_cast<std::size_t>(right)];
    auto place = std::ranges::find(known, token);
    const Id merged = static_cast<Id>(place - known.begin());
    if (place == known.end()) known.push_back(token);
    for (auto& [ids, count] : texts) {
      for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
        if (ids[i] != left || ids[i + 1] != right) continue;
        ids[i] = merged;
        ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      }
    }
  }
  return merges;
}

TEST(TrainBpe, LearnsAsTheDefinitionSays) {
  for (std::uint32_t seed = 0; seed < 6; ++seed) {
    WordCounts words({});
    words.add(testing::kProse);
    words.add(testing::wild_text(seed, 400));
    words.add("aaaa aaaaa aaa abab ababa bababa");
    const LearnedBpe learned = learn_bpe(words, 400, 2);
    EXPECT_EQ(learned.merges, learned_by_definition(words, 400, 2));
    EXPECT_LE(learned.tokens.size(), 400u);
  }
}

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
