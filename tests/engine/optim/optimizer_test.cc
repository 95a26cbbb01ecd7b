#include "engine/optim/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "../weights/toy_model.h"
#include "engine/weights/double_buffer.h"

namespace twobw::optim {
namespace {

using at::Tensor;
using weights::Layout;
using weights::toy_model;

// Plain gradient descent with a rate of 1: the update u is the gradient with its sign turned, and
// small whole numbers stay exact.
OptimizerConfig descent() {
  return {.name = "sgd", .momentum = 0.0, .weight_decay = 0.0};
}
constexpr double kRate = 1.0;

// One weight, started at 0, which a list of gradients pushes about.
class OneWeight {
 public:
  explicit OneWeight(const OptimizerConfig& config)
      : layout_(toy_model({{{.name = "w", .shape = {1}}}}), 0, 1),
        compute_(at::zeros({layout_.size()})),
        optimizer_(config, layout_, compute_) {}

  void update(double gradient, bool skip = false) {
    Tensor flat = at::full({layout_.gradient_size()}, gradient);
    optimizer_.apply({.learning_rate = kRate, .skip = skip}, flat, compute_, compute_);
  }
  double weight() const { return optimizer_.true_weights(compute_)[0].item<double>(); }
  double computes_with() const { return compute_[0].item<double>(); }

 private:
  Layout layout_;
  Tensor compute_;
  Optimizer optimizer_;
};

TEST(Optimizer, BiasCorrectionCountsTheUpdatesMade) {
  const OptimizerConfig config{.name = "adamw", .weight_decay = 0.0};
  OneWeight straight(config), stumbling(config);
  straight.update(-3);
  stumbling.update(1, /*skip=*/true);
  stumbling.update(-3);
  EXPECT_NEAR(straight.weight(), 1.0, 1e-6);  // Adam's first step is the rate
  EXPECT_EQ(stumbling.weight(), straight.weight());
}

TEST(Optimizer, AdamWAgreesWithTheOneOfTheLibrary) {
  const architecture::Model model = toy_model(/*tied=*/false);
  const Layout layout(model, 0, 4);
  Tensor flat = at::zeros({layout.size()});
  weights::initialize(layout, flat, 1);
  const OptimizerConfig config{.name = "adamw", .betas = {0.9, 0.95}, .eps = 1e-8, .weight_decay = 0.1};
  Optimizer optimizer(config, layout, flat);

  Tensor expected = flat.clone(), moment1 = at::zeros_like(flat), moment2 = at::zeros_like(flat);
  for (int t = 0; t < 10; ++t) {
    const Tensor gradient = at::sin(at::arange(layout.size(), at::kFloat).add_(10 * t));
    // The library's step, with and without decay.
    for (const weights::Parameter& parameter : layout.parameters()) {
      const auto part = [&](const Tensor& whole) {
        return whole.narrow(0, parameter.offset, parameter.count);
      };
      at::_fused_adamw_({part(expected)}, {part(gradient)}, {part(moment1)}, {part(moment2)}, {},
                        {at::full({}, t + 1.0, at::kFloat)}, /*lr=*/0.01, 0.9, 0.95,
                        parameter.spec.decay ? 0.1 : 0.0, 1e-8, /*amsgrad=*/false, /*maximize=*/false);
    }
    optimizer.apply({.learning_rate = 0.01}, gradient.clone(), flat, flat);
    for (const weights::Parameter& parameter : layout.parameters()) {
      const auto part = [&](const Tensor& whole) {
        return whole.narrow(0, parameter.offset, parameter.count);
      };
      EXPECT_TRUE(at::allclose(part(flat), part(expected), 1e-5, 1e-7))
          << parameter.spec.name << " after " << t;
    }
  }
}

TEST(Optimizer, WeightDecayLeavesBiasesAndGainsAlone) {
  const architecture::Model model = toy_model(/*tied=*/false);
  const Layout layout(model, 0, 4);
  for (const char* name : {"sgd", "adamw"}) {
    const Tensor before = at::ones({layout.size()});
    Tensor after = at::zeros({layout.size()});
    Optimizer optimizer({.name = name, .weight_decay = 0.5}, layout, before);
    optimizer.apply({.learning_rate = 0.25}, at::zeros({layout.gradient_size()}), before, after);
    for (const weights::Parameter& parameter : layout.parameters()) {
      EXPECT_EQ(after[parameter.offset].item<double>(), parameter.spec.decay ? 1 - 0.25 * 0.5 : 1.0)
          << parameter.spec.name;
    }
  }
}

TEST(Optimizer, ClearsEveryGradientThoseOfAliasesToo) {
  const architecture::Model model = toy_model(/*tied=*/true);
  const Layout layout(model, 0, 4);
  for (bool skip : {false, true}) {
    Tensor flat = at::zeros({layout.size()});
    Optimizer optimizer(descent(), layout, flat);
    const Tensor gradient = at::ones({layout.gradient_size()});
    optimizer.apply({.learning_rate = kRate, .skip = skip}, gradient, flat, flat);
    for (const weights::Parameter& parameter : layout.parameters()) {
      const Tensor part = gradient.narrow(0, parameter.gradient_offset, parameter.count);
      EXPECT_TRUE(at::equal(part, at::zeros_like(part))) << parameter.spec.name;
    }
  }
}

// By the primary's gradient, which is the sum by then; momentum would show a second time.
TEST(Optimizer, TiedWeightsMoveOnce) {
  const architecture::Model model = toy_model(/*tied=*/true);
  const Layout layout(model, 0, 4);
  Tensor flat = at::zeros({layout.size()});
  Optimizer optimizer({.name = "sgd", .momentum = 0.5, .weight_decay = 0.0}, layout, flat);
  optimizer.apply({.learning_rate = kRate}, at::ones({layout.gradient_size()}), flat, flat);
  EXPECT_EQ(flat[0].item<double>(), -1);
}

TEST(Optimizer, TheMasterIsACopyOfTheInitialWeights) {
  const Layout layout(toy_model({{{.name = "w", .shape = {4}}}}), 0, 1);
  Tensor flat = at::ones({layout.size()});
  const Optimizer with_master(descent(), layout, flat, /*predicts=*/true), without(descent(), layout, flat);
  flat.fill_(5);
  EXPECT_TRUE(at::equal(with_master.true_weights(flat), at::ones({layout.size()})));
  EXPECT_EQ(without.true_weights(flat).data_ptr(), flat.data_ptr());
}

// The layers' weights are those of single precision, rounded to nearest even; the master is the same.
TEST(Optimizer, RoundsWhatIsComputedWith) {
  constexpr std::int64_t kMany = 70'001;  // more than a thread's part, and no multiple of a piece
  const Layout layout(toy_model({{{.name = "w", .shape = {kMany}}, {.name = "v", .shape = {5}}}}), 0, 1);
  const OptimizerConfig config{.name = "adamw"};
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    const Tensor initial = at::randn({layout.size()}), gradient = at::randn({layout.gradient_size()});
    const Tensor master = initial.clone();
    Optimizer exact(config, layout, initial, /*predicts=*/true);
    Optimizer rounds(config, layout, master, /*predicts=*/true, type);
    Tensor written = at::zeros_like(initial), rounded = at::zeros({layout.size()}, type);
    const auto expect_rounded = [&] {
      for (const weights::Parameter& parameter : layout.parameters()) {
        const auto part = [&](const Tensor& flat) {
          return flat.narrow(0, parameter.offset, parameter.count);
        };
        EXPECT_TRUE(at::equal(part(rounded), part(written).to(type)));
        EXPECT_TRUE(at::equal(part(rounds.true_weights(rounded)), part(exact.true_weights(written))));
      }
    };
    EXPECT_EQ(rounds.true_weights(rounded).data_ptr(), master.data_ptr());
    exact.apply({.learning_rate = 1e-2}, gradient.clone(), initial, written);
    rounds.apply({.learning_rate = 1e-2}, gradient.clone(), rounded, rounded);
    expect_rounded();

    const Prediction coming{.learning_rate = 1e-2, .ratio = 2, .gradient = gradient};
    Prediction to_floats = coming, to_type = coming;
    to_floats.target = written;
    to_type.target = rounded;
    exact.predict(to_floats);
    rounds.predict(to_type);
    expect_rounded();

    exact.apply({.learning_rate = 1e-2}, gradient.clone(), written, {}, &to_floats);
    rounds.apply({.learning_rate = 1e-2}, gradient.clone(), rounded, {}, &to_type);
    expect_rounded();

    exact.apply({.learning_rate = 1e-2, .skip = true}, gradient.clone(), written, written);
    rounds.apply({.learning_rate = 1e-2, .skip = true}, gradient.clone(), rounded, rounded);
    expect_rounded();
  }
}

// A scaled gradient gives the same update as the unscaled one, for any scale.
TEST(Optimizer, DividesGradientsByTheLossScaleOfTheirBatch) {
  const Layout layout(toy_model({{{.name = "w", .shape = {100}}}}), 0, 1);
  for (const char* name : {"adamw", "sgd", "lion", "lamb"}) {
    const OptimizerConfig config{.name = name, .clip = 0.5};
    const Tensor initial = at::randn({layout.size()});
    Optimizer plain(config, layout, initial, /*predicts=*/true);
    Optimizer scaled(config, layout, initial, /*predicts=*/true);
    scaled.begin_scaling({.current = 1024, .next = 1024, .window = 2});
    Tensor expected = initial.clone(), actual = initial.clone();
    for (std::int64_t t = 0; t < 6; ++t) {
      const Tensor gradient = at::randn({layout.gradient_size()}), ahead = at::randn_like(gradient);
      const double scale = scaled.scaling().current, next_scale = scaled.scaling().next;
      const auto make_step = [&](Optimizer& optimizer, double times, double next_times, Tensor& to) {
        const Tensor own = gradient * times;
        const Prediction next{
            .learning_rate = 1e-2, .ratio = 2, .gradient = ahead * next_times, .target = to};
        return optimizer.step(1e-2, squared_norms(layout, own, {.count = layout.size()}), own, to, {}, &next);
      };
      const Applied one = make_step(plain, 1, 1, expected);
      const Applied other = make_step(scaled, scale, next_scale, actual);
      EXPECT_EQ(one.gradient_norm, other.gradient_norm);
      EXPECT_EQ(other.loss_scale, scale);
      EXPECT_TRUE(at::equal(actual, expected)) << name << " " << t;
      EXPECT_TRUE(at::equal(scaled.true_weights(actual), plain.true_weights(expected)));
    }
    EXPECT_EQ(scaled.scaling().current, 4096);
  }
}

TEST(Optimizer, ASkippedUpdateHalvesTheLossScale) {
  const Layout layout(toy_model({{{.name = "w", .shape = {4}}}}), 0, 1);
  Tensor flat = at::ones({layout.size()});
  Optimizer optimizer(descent(), layout, flat);
  optimizer.begin_scaling({.current = 8, .next = 8, .window = 100});
  const Tensor gradient = at::full({layout.gradient_size()}, std::numeric_limits<float>::infinity());
  EXPECT_TRUE(
      optimizer.step(kRate, squared_norms(layout, gradient, {.count = layout.size()}), gradient, flat, flat)
          .skipped);
  EXPECT_EQ(optimizer.scaling(), (LossScaling{.current = 8, .next = 4, .window = 100, .judged = 1}));
  EXPECT_TRUE(at::equal(flat, at::ones({layout.size()})));
}

TEST(ClipScale, BringsTheNormDownToTheLimit) {
  EXPECT_DOUBLE_EQ(clip_scale(0.5, 1.0), 1.0);
  EXPECT_NEAR(clip_scale(4.0, 1.0), 0.25, 1e-6);
  EXPECT_NEAR(clip_scale(1.0, 3.0), 1.0, 0.0);
  EXPECT_EQ(clip_scale(1e9, 0.0), 1.0);  // off
  EXPECT_EQ(clip_scale(0.0, 1.0), 1.0);
}

TEST(SquaredNorms, AnswerForEveryParameterButTiedCopies) {
  const architecture::Model model = toy_model(/*tied=*/true);
  const Layout whole(model, 0, 4), first(model, 0, 3), last(model, 3, 4);
  const auto norms = [](const Layout& layout) {
    Tensor gradient = at::full({layout.gradient_size()}, 1000.0);  // in the padding too
    for (const weights::Parameter& parameter : layout.parameters()) {
      gradient.narrow(0, parameter.gradient_offset, parameter.count)
          .fill_(parameter.spec.tied_to.empty() ? 2.0 : 50.0);
    }
    return squared_norms(layout, gradient, {.count = layout.size()});
  };
  const std::vector<double> expected = {4 * 21, 4 * 15, 4 * 9, 4 * 3, 4 * 9, 4 * 3, 4 * 3};
  EXPECT_EQ(norms(whole), expected);

  std::vector<double> parts = norms(first);
  for (double norm : norms(last)) parts.push_back(norm);
  EXPECT_EQ(parts, expected);  // number by number, so that their sum rounds the same way for every split
}

}  // namespace
}  // namespace twobw::optim
