#include "engine/optim/kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

namespace twobw::optim {
namespace {

using Values = std::vector<float>;

Values random_values(std::size_t n, unsigned seed) {
  std::mt19937 bits(seed);  // its stream is fixed by the standard, unlike that of the distributions
  Values values(n);
  for (float& value : values) value = static_cast<float>(bits()) / 2147483648.0f - 1.0f;
  return values;
}

// The memory of n parameters. `shift` moves every stream off its alignment.
struct Memory {
  explicit Memory(std::size_t n, std::size_t shift = 0) : n(n), shift(shift) {
    for (Values* stream : all()) stream->assign(n + shift, 0.0f);
    const Values weights = random_values(n, 1);
    std::copy(weights.begin(), weights.end(), source.begin() + static_cast<std::ptrdiff_t>(shift));
  }
  std::vector<Values*> all() { return {&source, &target, &gradient, &moment1, &moment2, &compute}; }
  // With weights to compute with beside the target.
  Streams streams() {
    const auto at = [&](Values& stream) { return stream.data() + shift; };
    return {.source = at(source),
            .target = at(target),
            .gradient = at(gradient),
            .moment1 = at(moment1),
            .moment2 = at(moment2),
            .compute = at(compute),
            .n = static_cast<std::int64_t>(n)};
  }
  Streams plain_streams() {
    Streams plain = streams();
    plain.compute = nullptr;
    return plain;
  }
  void set_gradient(unsigned seed) {
    const Values values = random_values(n, seed);
    std::copy(values.begin(), values.end(), gradient.begin() + static_cast<std::ptrdiff_t>(shift));
  }
  // The contents of the streams, without the shift.
  std::vector<Values> content() {
    std::vector<Values> content;
    for (Values* stream : all())
      content.emplace_back(stream->begin() + static_cast<std::ptrdiff_t>(shift), stream->end());
    return content;
  }

  std::size_t n, shift;
  Values source, target, gradient, moment1, moment2, compute;
};

constexpr std::size_t kCount = 37;  // no multiple of a vector

constexpr AdamWRule kAdamW = {.learning_rate = 0.01f,
                              .beta1 = 0.9f,
                              .beta2 = 0.95f,
                              .eps = 1e-8f,
                              .decay = 0.1f,
                              .correction1 = 0.1f,
                              .root_correction2 = 0.22360679f,
                              .gradient_scale = 0.5f};
constexpr SgdRule kSgd = {.learning_rate = 0.1f, .momentum = 0.9f, .decay = 0.1f, .gradient_scale = 0.5f};

AdamWRule adamw_at(int step) {
  AdamWRule rule = kAdamW;
  rule.correction1 = static_cast<float>(1 - std::pow(0.9, step));
  rule.root_correction2 = static_cast<float>(std::sqrt(1 - std::pow(0.95, step)));
  return rule;
}

// The textbook update of one element, in double.
struct Element {
  double w = 0, m = 0, v = 0;

  double adamw(double g, int step, double lr, double beta1, double beta2, double eps, double decay) {
    m = beta1 * m + (1 - beta1) * g;
    v = beta2 * v + (1 - beta2) * g * g;
    const double m_hat = m / (1 - std::pow(beta1, step)), v_hat = v / (1 - std::pow(beta2, step));
    return -lr * (m_hat / (std::sqrt(v_hat) + eps) + decay * w);
  }
  double sgd(double g, double lr, double momentum, double decay) {
    m = momentum * m + g;
    return -lr * (m + decay * w);
  }
};

// Five steps against the textbook's; `rule_at` is the kernel's rule of a step, `exact` the element's update.
template <typename RuleAt, typename Exact>
void expect_follows(RuleAt rule_at, Exact exact) {
  Memory memory(kCount);
  std::vector<Element> elements(kCount);
  for (std::size_t i = 0; i < kCount; ++i) elements[i].w = memory.source[i];
  for (int step = 1; step <= 5; ++step) {
    memory.set_gradient(10 + step);
    const Values gradient = memory.gradient;
    apply(rule_at(step), memory.plain_streams());
    for (std::size_t i = 0; i < kCount; ++i) {
      elements[i].w += exact(elements[i], 0.5 * gradient[i], step);
      EXPECT_NEAR(memory.target[i], elements[i].w, 1e-6) << "element " << i << " after " << step;
      EXPECT_NEAR(memory.moment1[i], elements[i].m, 1e-6);
      EXPECT_NEAR(memory.moment2[i], elements[i].v, 1e-6);
    }
    memory.source = memory.target;
  }
}

TEST(OptimizerKernels, FollowTheirFormulas) {
  expect_follows(adamw_at, [](Element& element, double g, int step) {
    return element.adamw(g, step, 0.01, 0.9, 0.95, 1e-8, 0.1);
  });
  expect_follows([](int) { return kSgd; },
                 [](Element& element, double g, int) { return element.sgd(g, 0.1, 0.9, 0.1); });
}

TEST(OptimizerKernels, InPlaceGivesWhatOutOfPlaceGives) {
  Memory apart(kCount), together(kCount);
  for (int t = 0; t < 3; ++t) {
    apart.set_gradient(40 + t);
    together.set_gradient(40 + t);
    apply(kAdamW, apart.plain_streams());
    Streams in_place = together.plain_streams();
    in_place.target = together.source.data();
    apply(kAdamW, in_place);
    EXPECT_EQ(together.source, apart.target);
    apart.source = apart.target;
  }
}

// A parameter may lie anywhere in a flat buffer and be cut up among threads anywhere: not a bit of the
// result may depend on it, or a stage would not agree with the whole.
template <typename Rule>
void expect_same_in_any_pieces(const Rule& rule, bool copies) {
  constexpr std::size_t kMany = 203;
  const auto run = [&](std::size_t shift, const std::vector<std::int64_t>& cuts) {
    Memory memory(kMany, shift);
    for (int t = 0; t < 3; ++t) {
      memory.set_gradient(50 + t);
      const Streams streams = copies ? memory.streams() : memory.plain_streams();
      for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
        apply(rule, streams.from(cuts[i], cuts[i + 1] - cuts[i]));
      }
      memory.source = memory.target;
    }
    return memory.content();
  };
  const auto whole = run(0, {0, kMany});
  EXPECT_EQ(run(0, {0, 1, 2, 19, 40, 41, 104, kMany}), whole);
  EXPECT_EQ(run(0, {0, 100, kMany}), whole);
  for (std::size_t shift : {1, 2, 3, 5, 8, 13})
    EXPECT_EQ(run(shift, {0, kMany}), whole) << "shifted by " << shift;
}

TEST(OptimizerKernels, EveryBitIsTheSameInAnyPieces) {
  for (bool copies : {false, true}) {
    expect_same_in_any_pieces(kAdamW, copies);
    expect_same_in_any_pieces(kSgd, copies);
  }
}

TEST(OptimizerKernels, ASkippedUpdateCopiesTheWeightsAndLeavesTheState) {
  Memory memory(kCount);
  for (int t = 0; t < 3; ++t) {
    memory.set_gradient(60 + t);
    apply(kAdamW, memory.streams());
    memory.source = memory.target;
  }
  Memory before = memory;
  memory.gradient.assign(kCount, std::numeric_limits<float>::quiet_NaN());
  skip(memory.streams());

  EXPECT_EQ(memory.target, before.source);
  EXPECT_EQ(memory.gradient, Values(kCount, 0.0f));
  EXPECT_EQ(memory.moment1, before.moment1);
  EXPECT_EQ(memory.moment2, before.moment2);
  EXPECT_EQ(memory.compute, before.source);
}

TEST(SquaredNorm, IsTheSumOfSquaresInDouble) {
  for (std::size_t n : {0, 1, 15, 16, 17, 100, 1000}) {
    const Values values = random_values(n, 70);
    long double exact = 0;
    for (float value : values) exact += static_cast<long double>(value) * value;
    EXPECT_NEAR(squared_norm(values.data(), static_cast<std::int64_t>(n)), static_cast<double>(exact), 1e-12)
        << n;
  }
}

TEST(SquaredNorm, DoesNotOverflowAndLosesNoSmallAddend) {
  const Values large(3, 1e30f);
  EXPECT_NEAR(squared_norm(large.data(), 3) / 3e60, 1.0, 1e-6);
  Values mixed(1000, 1e-4f);  // in float, 1 + 1e-8 is 1
  mixed[0] = 1.0f;
  EXPECT_NEAR(squared_norm(mixed.data(), 1000) - 1.0, 999e-8, 1e-12);
}

TEST(SquaredNorm, RoundsAlikeWhereverTheValuesLie) {
  constexpr std::size_t kMany = 1003;
  const Values values = random_values(kMany, 71);
  const double expected = squared_norm(values.data(), kMany);
  for (std::size_t shift = 1; shift < 16; ++shift) {
    Values moved(shift, 0.0f);
    moved.insert(moved.end(), values.begin(), values.end());
    EXPECT_EQ(squared_norm(moved.data() + shift, kMany), expected) << "shifted by " << shift;
  }
}

TEST(SquaredNorm, ReportsWhatIsNotFinite) {
  for (float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (std::size_t where : {0, 7, 31, 36}) {
      Values values = random_values(kCount, 72);
      values[where] = bad;
      EXPECT_FALSE(std::isfinite(squared_norm(values.data(), kCount))) << bad << " at " << where;
    }
  }
}

}  // namespace
}  // namespace twobw::optim
