// The order of examples. Several corpora as one: each has its part of every prefix, is shuffled by itself and
// read once in each of its epochs. Buckets: sequences of similar length are adjacent.
#include "engine/data/order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "core/base/config.h"
#include "core/base/random.h"
#include "engine/data/tokens.h"
#include "tests/engine/data/microbatches.h"
#include "tests/text/corpus/testing.h"

namespace twobw::data {
namespace {
namespace blending {

using corpus::testing::Folder;
using Order = std::vector<std::size_t>;

double sum_of(const std::vector<double>& weights) {
  return std::accumulate(weights.begin(), weights.end(), 0.0);
}

// The largest deviation of any corpus from its share, over the prefixes of `count` sequences.
double farthest(const std::vector<double>& weights, std::int64_t count) {
  const Blend blend(weights);
  std::vector<std::int64_t> given(weights.size(), 0);
  double most = 0;
  for (std::int64_t n = 0; n < count; ++n) {
    const auto [corpus, number] = blend(n);
    EXPECT_EQ(number, given[corpus]++);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const double owed = weights[i] / sum_of(weights) * static_cast<double>(n + 1);
      most = std::max(most, std::abs(static_cast<double>(given[i]) - owed));
    }
  }
  return most;
}

TEST(Blend, IsAPatternThatRepeats) {
  const Blend blend({0.7, 0.3});
  EXPECT_EQ(blend.period(), 10);
  Order order;
  for (int n = 0; n < 10; ++n) order.push_back(blend(n).corpus);
  EXPECT_EQ(order, (Order{0, 0, 1, 0, 0, 1, 0, 0, 0, 1}));
  EXPECT_EQ(blend(1'000'000'000'002).corpus, 1u);
  EXPECT_EQ(blend(1'000'000'000'002).number, 300'000'000'000);
  EXPECT_EQ(Blend({5}).period(), 1);
  EXPECT_EQ(Blend({2, 2, 2}).period(), 3);
  EXPECT_EQ(Blend({1, 2}).period(), 3);
  EXPECT_EQ(Blend({0.1, 0.2, 0.7}).period(), 10);
  EXPECT_EQ(Blend({123'456, 876'544}).period(), 15'625);
}

TEST(Blend, EveryPrefixHasItsPartsToWithinOneSequence) {
  for (const std::vector<double>& weights : std::vector<std::vector<double>>{{1},
                                                                             {0.7, 0.3},
                                                                             {1, 1, 1, 1},
                                                                             {0.5, 0.1, 0.1, 0.1, 0.1, 0.1},
                                                                             {97, 1, 1, 1},
                                                                             {0.001, 0.999},
                                                                             {0.34, 0.33, 0.32, 0.01}}) {
    EXPECT_LE(farthest(weights, 3000), 1) << weights.size();
  }
  for (std::uint64_t draw = 0; draw < 60; ++draw) {
    std::vector<double> weights;
    for (std::uint64_t i = 0; i < 2 + draw % 9; ++i)
      weights.push_back(static_cast<double>(1 + random_key(draw, i) % (i % 2 == 0 ? 1000 : 20)));
    EXPECT_LE(farthest(weights, 500), 1) << draw;
  }
}

TEST(Blend, WeightsThatHaveNoPatternCountToAMillionth) {
  const std::vector<double> weights = {std::sqrt(2.0), std::acos(-1.0), 1e-5};
  const Blend blend(weights);
  EXPECT_EQ(blend.period(), Blend::kLongest);
  EXPECT_LE(farthest(weights, 100'000), 1.1);
}

class Blended : public ::testing::Test {
 protected:
  static constexpr int kContext = 4;

  // Bytes that name corpus and window: 7 windows of 'a', 5 of 'b'.
  Blended() {
    for (const auto& [name, windows] : {std::pair{'a', 7}, std::pair{'b', 5}}) {
      std::string text;
      for (int window = 0; window < windows; ++window)
        text += std::string{name} + static_cast<char>('0' + window) + "..";
      folder_.write(std::string{name}, text + name);
    }
  }

  Corpora corpora() const { return {{folder_.file("a"), 0.75}, {folder_.file("b"), 0.25}}; }

  Config config(int replicas, int m, int b) const {
    Config config;
    config.model.vocab = 256;
    config.model.context = kContext;
    config.data.train = config.data.validation = corpora();
    config.pipeline.replicas = replicas;
    config.pipeline.microbatches = m;
    config.pipeline.microbatch = b;
    return config;
  }

  // "a3", "b0", ... of the first updates, replica after replica.
  static std::vector<std::string> trained(const Config& config, const Source& source, int updates) {
    std::vector<std::string> order;
    for_each_microbatch(config, source, kText, updates, [&](const Batch& batch) { append(order, batch); });
    return order;
  }

  static void append(std::vector<std::string>& order, const Batch& batch) {
    for (int row = 0; row < batch[Field::Tokens].size(0); ++row) {
      const auto* tokens = batch[Field::Tokens].const_data_ptr<std::int64_t>() + row * kContext;
      const auto* targets = batch[Field::Targets].const_data_ptr<std::int64_t>() + row * kContext;
      EXPECT_EQ(targets[0], tokens[1]);
      EXPECT_EQ(targets[kContext - 1], tokens[0]);
      order.push_back({static_cast<char>(tokens[0]), static_cast<char>(tokens[1])});
    }
  }

  static std::vector<std::string> of(char name, const std::vector<std::string>& order) {
    std::vector<std::string> own;
    std::ranges::copy_if(order, std::back_inserter(own), [&](const std::string& s) { return s[0] == name; });
    return own;
  }

  Folder folder_;
};

TEST_F(Blended, EveryCorpusIsReadOnceInEachOfItsEpochs) {
  const Config one = config(1, 4, 7);
  const auto source = open_source("data.train", one.data.train, one);
  const auto order = trained(one, *source, 3);  // 84 sequences: 9 epochs of a, 4 of b and one more sequence
  EXPECT_EQ(of('a', order).size(), 63u);
  EXPECT_EQ(of('b', order).size(), 21u);
  for (const auto& [name, windows] : {std::pair{'a', 7}, std::pair{'b', 5}}) {
    const auto own = of(name, order);
    std::set<std::vector<std::string>> orders;
    for (std::size_t begin = 0; begin + windows <= own.size(); begin += windows) {
      std::vector<std::string> epoch(own.begin() + begin, own.begin() + begin + windows);
      orders.insert(epoch);
      std::ranges::sort(epoch);
      for (int window = 0; window < windows; ++window)
        EXPECT_EQ(epoch[window], (std::string{name, static_cast<char>('0' + window)}));
    }
    EXPECT_GT(orders.size(), 1u);
  }
}

TEST_F(Blended, ValidationIsBlendedTooAndInOrder) {
  const Config one = config(1, 1, 4);
  const auto source = open_source("data.validation", one.data.validation, one);
  std::vector<std::string> order;
  for (int index = 0; index < 6; ++index) append(order, source->sequential(index, 4, kContext));
  EXPECT_EQ(of('a', order), (std::vector<std::string>{"a0", "a1", "a2", "a3", "a4", "a5", "a6", "a0", "a1",
                                                      "a2", "a3", "a4", "a5", "a6", "a0", "a1", "a2", "a3"}));
  EXPECT_EQ(of('b', order), (std::vector<std::string>{"b0", "b1", "b2", "b3", "b4", "b0"}));
}

}  // namespace blending

namespace bucketing {

using Numbers = std::vector<std::int64_t>;

Numbers numbers_to(std::int64_t count) {
  Numbers all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// Example 7 i mod 100 is of length i / 3: three of every length.
std::int64_t length_of(std::int64_t example) {
  return example * 43 % 100 / 3;
}

TEST(Buckets, HoldExamplesOfLikeLengthInRandomOrder) {
  const Numbers order = order_by_length(numbers_to(100), 12, 5, length_of);
  Numbers sorted = order;
  std::ranges::sort(sorted);
  EXPECT_EQ(sorted, numbers_to(100));
  Numbers first;
  for (int bucket = 0; bucket < 8; ++bucket) {
    const auto begin = order.begin() + 12 * bucket;
    EXPECT_TRUE(
        std::is_sorted(begin, begin + 12, [](auto a, auto b) { return length_of(a) < length_of(b); }));
    EXPECT_EQ(length_of(begin[11]) - length_of(begin[0]), 3);
    first.push_back(length_of(begin[0]));
  }
  EXPECT_FALSE(std::ranges::is_sorted(first));
  // The remainder that fills no bucket has the longest examples, and comes last.
  for (int i = 96; i < 100; ++i) EXPECT_GE(length_of(order[static_cast<std::size_t>(i)]), 32);
  EXPECT_EQ(order, order_by_length(numbers_to(100), 12, 5, length_of));
  EXPECT_NE(order, order_by_length(numbers_to(100), 12, 6, length_of));
}

TEST(Buckets, LargerThanThePoolLeaveItSorted) {
  const Numbers order = order_by_length(numbers_to(9), 12, 5, length_of);
  EXPECT_TRUE(std::ranges::is_sorted(order, {}, length_of));
  EXPECT_EQ(order_by_length({}, 3, 1, length_of), Numbers());
}

}  // namespace bucketing
}  // namespace
}  // namespace twobw::data
