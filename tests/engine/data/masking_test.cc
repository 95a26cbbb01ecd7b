#include "engine/data/masking.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace twobw::data {
namespace {
namespace masking {

using Ids = std::vector<std::int64_t>;

constexpr std::int64_t kMask = 999, kVocab = 1000;

struct Masked {
  Ids seen, targets;
};

Masked masked(const Masking& masking, std::uint64_t key, Ids tokens) {
  Masked result{.seen = std::move(tokens)};
  result.targets.assign(result.seen.size(), 7);
  mask_tokens(masking, key, result.seen, result.targets);
  return result;
}

// 0, 1, 2, ..., without the mask.
Ids counting_to(std::int64_t count) {
  Ids tokens(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) tokens[static_cast<std::size_t>(i)] = i % kMask;
  return tokens;
}

TEST(Masking, ChoosesSomeAndChangesThemAsBertDoes) {
  const Ids tokens = counting_to(200'000);
  const Masked made = masked({.mask = kMask, .vocab = kVocab}, 1, tokens);
  double chosen = 0, masks = 0, same = 0, others = 0;
  std::set<std::int64_t> drawn;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (made.targets[i] == kIgnored) {
      EXPECT_EQ(made.seen[i], tokens[i]);
      continue;
    }
    EXPECT_EQ(made.targets[i], tokens[i]);
    ++chosen;
    if (made.seen[i] == kMask) {
      ++masks;
    } else if (made.seen[i] == tokens[i]) {
      ++same;
    } else {
      ++others;
      drawn.insert(made.seen[i]);
      EXPECT_TRUE(made.seen[i] >= 0 && made.seen[i] < kVocab);
    }
  }
  EXPECT_NEAR(chosen / 200'000, 0.15, 0.004);
  EXPECT_NEAR(masks / chosen, 0.8, 0.01);
  EXPECT_NEAR(same / chosen, 0.1, 0.01);
  EXPECT_NEAR(others / chosen, 0.1, 0.01);
  EXPECT_GT(drawn.size(), 900u);
}

TEST(Masking, LeavesSpecialTokensAlone) {
  Masking masking{.probability = 1, .mask = kMask, .vocab = kVocab};
  masking.special = {true, false, true};  // of tokens 0 to 2
  const Masked made = masked(masking, 1, {0, 1, 2, 3, 0});
  EXPECT_EQ(made.targets, (Ids{kIgnored, 1, kIgnored, 3, kIgnored}));
  EXPECT_EQ(made.seen[0], 0);
  EXPECT_EQ(made.seen[2], 2);
  EXPECT_EQ(made.seen[4], 0);
}

TEST(Masking, TakesWordsAsAWhole) {
  Masking masking{.probability = 0.3, .mask = kMask, .vocab = kVocab};
  masking.continues.resize(20);
  for (std::size_t token = 10; token < 20; ++token) masking.continues[token] = true;
  masking.special = {true};
  // Words of one to four tokens. The first continues a word before the window, another follows a special
  // token.
  const std::vector<Ids> words = {{10, 11}, {1}, {2, 12}, {0}, {13}, {3, 14, 15, 16}, {4, 17}, {5}};
  Ids tokens;
  for (const Ids& word : words) tokens.insert(tokens.end(), word.begin(), word.end());
  double chosen = 0;
  for (std::uint64_t key = 0; key < 2000; ++key) {
    const Masked made = masked(masking, key, tokens);
    std::size_t at = 0;
    for (const Ids& word : words) {
      const bool first = made.targets[at] != kIgnored;
      for (std::size_t i = 0; i < word.size(); ++i, ++at) EXPECT_EQ(made.targets[at] != kIgnored, first);
      EXPECT_FALSE(first && word[0] == 0);
      chosen += first;
    }
  }
  EXPECT_NEAR(chosen / 2000 / 7, 0.3, 0.02);
}

}  // namespace masking
}  // namespace
}  // namespace twobw::data
