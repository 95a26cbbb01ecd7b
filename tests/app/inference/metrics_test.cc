// Known values, worked out by hand or by scikit-learn and scipy.
#include "app/inference/evaluation.h"

#include <gtest/gtest.h>

#include <cmath>

namespace twobw::inference {
namespace {

Confusion confusion_of(int classes, const std::vector<int>& truths, const std::vector<int>& predictions) {
  Confusion confusion(classes);
  for (std::size_t i = 0; i < truths.size(); ++i) confusion.add(truths[i], predictions[i]);
  return confusion;
}

TEST(Metrics, OfLanguageModels) {
  EXPECT_DOUBLE_EQ(perplexity(std::log(8.0)), 8);
  EXPECT_DOUBLE_EQ(bits_per_byte(10 * std::log(2.0), 5), 2);
}

TEST(Metrics, CrossEntropyOfLogits) {
  const std::vector<float> logits = {0, std::log(2.0f), 0};
  EXPECT_NEAR(cross_entropy(logits, 1), std::log(2.0), 1e-7);
  EXPECT_NEAR(cross_entropy(logits, 0), std::log(4.0), 1e-7);
  EXPECT_NEAR(cross_entropy(std::vector<float>{1000, 0}, 1), 1000, 1e-9);
  EXPECT_EQ(greatest(std::vector<float>{1, 3, 3, 2}), 1);
}

TEST(Metrics, OfTwoClasses) {
  // 3 true positives, 1 false positive, 2 false negatives, 4 true negatives.
  const Confusion c = confusion_of(2, {1, 1, 1, 0, 1, 1, 0, 0, 0, 0}, {1, 1, 1, 1, 0, 0, 0, 0, 0, 0});
  EXPECT_EQ(c.count(), 10);
  EXPECT_DOUBLE_EQ(c.accuracy(), 0.7);
  EXPECT_DOUBLE_EQ(c.f1(), 2.0 * 3 / (4 + 5));
  EXPECT_DOUBLE_EQ(c.matthews(), (3.0 * 4 - 1.0 * 2) / std::sqrt(4.0 * 5 * 5 * 6));
}

TEST(Metrics, OfMoreClasses) {
  // sklearn.metrics: accuracy_score, f1_score(average="macro"), matthews_corrcoef. Class 3 never occurs.
  const Confusion c = confusion_of(4, {0, 1, 2, 0, 1, 2, 2}, {0, 2, 2, 0, 1, 1, 2});
  EXPECT_NEAR(c.accuracy(), 5.0 / 7, 1e-12);
  EXPECT_NEAR(c.f1(), (1.0 + 0.5 + 2.0 / 3) / 3, 1e-12);
  EXPECT_NEAR(c.matthews(), 0.5625, 1e-12);
}

TEST(Metrics, OfOneClassAlone) {
  const Confusion c = confusion_of(2, {0, 0, 0}, {0, 0, 0});
  EXPECT_DOUBLE_EQ(c.accuracy(), 1);
  EXPECT_DOUBLE_EQ(c.f1(), 0);
  EXPECT_DOUBLE_EQ(c.matthews(), 0);
}

TEST(Metrics, OfNumbers) {
  const std::vector<double> a = {1, 2, 3, 4}, b = {1, 3, 2, 10};
  EXPECT_DOUBLE_EQ(mean_squared_error(a, b), (0 + 1 + 1 + 36) / 4.0);
  EXPECT_NEAR(pearson(a, b), 13 / std::sqrt(5 * 50.0), 1e-12);
  EXPECT_NEAR(spearman(a, b), 0.8, 1e-12);
  EXPECT_NEAR(spearman(std::vector<double>{1, 2, 2, 3}, std::vector<double>{1, 2, 3, 4}), 0.9486832980505138,
              1e-12);
  EXPECT_TRUE(std::isnan(pearson(a, std::vector<double>{7, 7, 7, 7})));
  // Their mean is not quite 0.1.
  const std::vector<double> equal(7, 0.1), rising = {1, 2, 3, 4, 5, 6, 8};
  EXPECT_TRUE(std::isnan(pearson(equal, rising)));
  EXPECT_TRUE(std::isnan(pearson(rising, equal)));
  EXPECT_TRUE(std::isnan(pearson(std::vector<double>{}, std::vector<double>{})));
}

}  // namespace
}  // namespace twobw::inference
