// Windows of token files with model.reset_documents: no token attends to another document.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "core/base/config.h"
#include "engine/data/order.h"
#include "engine/data/tokens.h"
#include "engine/runtime/microbatches.h"
#include "tests/text/corpus/testing.h"

namespace twobw::data {
namespace {
namespace apart {

using corpus::testing::Folder;
using corpus::testing::write_counting;
using Numbers = std::vector<std::int64_t>;

constexpr int kContext = 8, kWindows = 21;
constexpr BatchFields kFields = kText | BatchFields{Field::Positions};

Numbers row_of(const at::Tensor& tensor, int row) {
  const auto* const begin = tensor.const_data_ptr<std::int64_t>() + row * kContext;
  return {begin, begin + kContext};
}

class ResetDocuments : public ::testing::Test {
 protected:
  // Two corpora with equally many windows. Documents end within windows and at their ends; some windows have
  // several ends, some none.
  ResetDocuments() {
    write_counting(folder_, "x", {50, 1, 0, 69, 8, 47});
    write_counting(folder_, "y", std::vector<int>(57, 3));
  }

  Config config(const Corpora& corpora) const {
    Config config;
    config.model.vocab = 1000;
    config.model.context = kContext;
    config.model.reset_documents = true;
    config.data.train = corpora;
    return config;
  }
  std::unique_ptr<Source> open(const Corpora& corpora) const {
    return open_source("data.train", corpora, config(corpora));
  }
  Corpora only(const std::string& name) const { return {{folder_.file(name), 1}}; }

  // Checks a row of a text whose documents begin at `begins`, token by token.
  static void expect_apart(const Batch& batch, int row, const std::set<std::int64_t>& begins) {
    const Numbers tokens = row_of(batch[Field::Tokens], row);
    Numbers positions, targets;
    for (const std::int64_t token : tokens) {
      const bool anew = positions.empty() || begins.contains(token);
      positions.push_back(anew ? 0 : positions.back() + 1);
      targets.push_back(begins.contains(token + 1) ? kIgnored : token + 1);
    }
    EXPECT_EQ(row_of(batch[Field::Positions], row), positions) << "from " << tokens.front();
    EXPECT_EQ(row_of(batch[Field::Targets], row), targets) << "from " << tokens.front();
  }

  static std::set<std::int64_t> begins_of_y() {
    std::set<std::int64_t> begins;
    for (std::int64_t i = 0; i < 57; ++i) begins.insert(3 * i);
    return begins;
  }
  const std::set<std::int64_t> begins_of_x_ = {0, 50, 51, 120, 128};

  Folder folder_;
};

TEST_F(ResetDocuments, PositionsBeginAnewAndNoTargetIsOfAnotherDocument) {
  const auto source = open(only("x"));
  EXPECT_EQ(source->fields(), kFields);
  EXPECT_FALSE(source->is_dense());
  std::multiset<std::int64_t> windows;
  for (int batch = 0; batch < 6; ++batch) {  // two epochs
    const Batch sample = source->random({.seed = 3, .first = 7 * batch}, 7, kContext, kFields);
    for (int row = 0; row < 7; ++row) {
      expect_apart(sample, row, begins_of_x_);
      windows.insert(row_of(sample[Field::Tokens], row).front() / kContext);
    }
  }
  for (int window = 0; window < kWindows; ++window) EXPECT_EQ(windows.count(window), 2u);
  const Batch all = source->sequential(0, kWindows, kContext, kFields);
  for (int row = 0; row < kWindows; ++row) expect_apart(all, row, begins_of_x_);
}

TEST_F(ResetDocuments, CorporaAreBlended) {
  const auto source = open({{folder_.file("x"), 0.7}, {folder_.file("y"), 0.3}});
  const Blend blend({0.7, 0.3});
  const Batch sample = source->random({.seed = 3, .first = 10}, 40, kContext, kFields);
  for (int row = 0; row < 40; ++row)
    expect_apart(sample, row, blend(10 + row).corpus == 0 ? begins_of_x_ : begins_of_y());
}

// The loss is the mean over the targets of all replicas that are not ignored.
TEST_F(ResetDocuments, IgnoredTargetsDoNotCount) {
  Config one = config(only("y"));
  one.pipeline.replicas = 2;
  const auto source = open(only("y"));
  runtime::MicrobatchSource microbatches(one, *source, *source, kFields | BatchFields{Field::LossScale});
  std::int64_t labels = 0;
  double scale = 0;
  for (int replica = 0; replica < 2; ++replica) {
    for (int k = 0; k < one.pipeline.microbatches; ++k) {
      const models::MicrobatchContext pass = microbatches.training(replica, k);
      labels += pass.batch[Field::Targets].ge(0).sum().item<std::int64_t>();
      scale = pass.batch[Field::LossScale].item<double>();
    }
  }
  EXPECT_LT(labels, one.pipeline.batch() * kContext * 3 / 4);
  EXPECT_EQ(scale, 1.0 / static_cast<double>(labels));
}

TEST_F(ResetDocuments, MadeUpTextHasDocumentsToo) {
  const auto source = open({{.path = "synthetic"}});
  const Batch sample = source->random({.seed = 3}, 100, kContext, kFields);
  bool cut = false;
  for (int row = 0; row < 100; ++row) {
    const Numbers positions = row_of(sample[Field::Positions], row);
    const Numbers targets = row_of(sample[Field::Targets], row);
    const Numbers tokens = row_of(sample[Field::Tokens], row);
    for (int i = 0; i + 1 < kContext; ++i) {
      const bool ends = positions[i + 1] == 0;
      EXPECT_TRUE(ends || positions[i + 1] == positions[i] + 1);
      EXPECT_EQ(targets[i], ends ? kIgnored : tokens[i + 1]);
      cut = cut || ends;
    }
  }
  EXPECT_TRUE(cut);
}

}  // namespace apart
}  // namespace
}  // namespace twobw::data
