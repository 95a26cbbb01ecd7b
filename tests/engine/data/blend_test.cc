// Several corpora as one: each has its part of every prefix, is shuffled by itself and read once in each of
// its epochs, whatever the layout.
#include "engine/data/order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>

#include "core/base/config.h"
#include "core/base/random.h"
#include "engine/data/tokens.h"
#include "engine/runtime/pass.h"
#include "tests/text/corpus/testing.h"

namespace twobw::data {
namespace {
namespace blending {

using corpus::testing::Folder;
using corpus::testing::refusal;
using Order = std::vector<std::size_t>;

double sum_of(const std::vector<double>& weights) {
  return std::accumulate(weights.begin(), weights.end(), 0.0);
}

// The farthest that any corpus is from its part, over the prefixes of `count` sequences.
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

  // Bytes that say which corpus they are of, and which window: 7 windows of 'a', 5 of 'b'.
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
    runtime::Passes passes(config, source, source, kText);
    const int m = config.pipeline.microbatches;
    std::vector<std::string> order;
    for (int update = 0; update < updates; ++update) {
      for (int replica = 0; replica < config.pipeline.replicas; ++replica) {
        for (int k = update * m; k < (update + 1) * m; ++k) append(order, passes.training(replica, k).batch);
      }
    }
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

TEST_F(Blended, TheLayoutDoesNotShow) {
  const Config one = config(1, 1, 8);
  const auto source = open_source("data.train", one.data.train, one);
  const auto order = trained(one, *source, 20);
  for (const auto& [replicas, m, b] :
       std::vector<std::array<int, 3>>{{1, 8, 1}, {1, 2, 4}, {2, 4, 1}, {2, 1, 4}, {4, 1, 2}}) {
    EXPECT_EQ(trained(config(replicas, m, b), *source, 20), order) << replicas << ' ' << m << ' ' << b;
  }
  Config other = one;
  other.train.seed = 1;
  EXPECT_NE(trained(other, *source, 20), order);
  for (std::int64_t n = 159; n >= 0; --n) {  // without those before
    std::vector<std::string> found;
    append(found, source->random({.first = n}, 1, kContext));
    EXPECT_EQ(found.front(), order[static_cast<std::size_t>(n)]);
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

TEST_F(Blended, SaysWhatItIsOf) {
  const Config one = config(1, 1, 4);
  EXPECT_EQ(open_source("data.train", one.data.train, one)->describe(),
            "75% of " + folder_.file("a") + " (29 bytes), 25% of " + folder_.file("b") + " (21 bytes)");
}

TEST_F(Blended, APartThatCannotBeReadIsNamed) {
  Config one = config(1, 1, 4);
  one.data.train.push_back({folder_.file("none"), 1});
  EXPECT_EQ(refusal([&] { open_source("data.train", one.data.train, one); }),
            "data.train is '" + folder_.file("none") +
                "', which cannot be read (No such file or directory); give a text file, token files, or "
                "synthetic");
}

TEST_F(Blended, MadeUpTextMayBeAPart) {
  Config one = config(1, 1, 4);
  one.data.train.push_back({"synthetic", 1});
  const auto source = open_source("data.train", one.data.train, one);
  int made_up = 0;
  for (int n = 0; n < 40; ++n) {
    const Batch batch = source->random({.first = n}, 1, kContext);
    EXPECT_TRUE(at::equal(batch[Field::Tokens].narrow(1, 1, 3), batch[Field::Targets].narrow(1, 0, 3)));
    const auto first = batch[Field::Tokens][0][0].item<std::int64_t>();
    made_up += first != 'a' && first != 'b';
  }
  EXPECT_NEAR(made_up, 20, 2);
}

}  // namespace blending
}  // namespace
}  // namespace twobw::data
