#include "engine/weights/double_buffer.h"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <map>

#include "engine/models/ops.h"
#include "toy_model.h"

namespace twobw::weights {
namespace {

using at::Tensor;

// One layer y = x weight^T + bias.
const architecture::Model& affine_model() {
  static const architecture::Model model =
      toy_model({{{.name = "weight", .shape = {2, 3}, .init_std = 1.0}, {.name = "bias", .shape = {2}}}});
  return model;
}

// Writes W(newest + 1) = W(newest) + step, as a stage does: out of place unless there is one buffer.
void update(Versions& versions, double step) {
  at::NoGradGuard no_grad;
  const Tensor source = versions.flat(versions.newest());
  Tensor target = versions.begin_write();
  const float* from = source.const_data_ptr<float>();
  float* to = target.mutable_data_ptr<float>();
  for (std::int64_t i = 0; i < target.numel(); ++i) to[i] = from[i] + static_cast<float>(step);
  versions.publish();
}

Tensor loss_of(std::span<const Tensor> parameters, const Tensor& x) {
  return models::ops::linear(x, parameters[0], parameters[1]).pow(2).sum();
}

Tensor some_input() {
  return at::arange(12, at::kFloat).view({4, 3}).div_(10).set_requires_grad(true);
}

TEST(Versions, TheNewVersionIsWrittenIntoTheBufferOfTheRetiredOne) {
  const Layout layout(affine_model(), 0, 1);
  Versions versions(layout, /*kept=*/2, /*seed=*/1);
  const void* even = versions.flat(0).data_ptr();
  update(versions, 1);
  const void* odd = versions.flat(1).data_ptr();
  EXPECT_NE(odd, even);
  EXPECT_EQ(versions.flat(0).data_ptr(), even);  // W(0) stays where it was: nothing is copied

  const Tensor w1 = versions.flat(1).clone();
  EXPECT_EQ(versions.begin_write().data_ptr(), even);
  update(versions, 1);
  EXPECT_EQ(versions.newest(), 2);
  EXPECT_EQ(versions.flat(2).data_ptr(), even);
  EXPECT_EQ(versions.flat(1).data_ptr(), odd);
  EXPECT_TRUE(at::equal(versions.flat(1), w1));
  EXPECT_TRUE(at::equal(versions.flat(2), w1 + 1));
}

TEST(Versions, AResumedRunBeginsWithWhatWasSaved) {
  const Layout layout(affine_model(), 0, 1);
  Versions versions(layout, /*kept=*/2, /*seed=*/1);
  const Tensor before = at::full({layout.size()}, 3.0), saved = at::full({layout.size()}, 4.0);
  versions.begin_after(7);
  versions.restore(7, before);
  EXPECT_EQ(versions.newest(), 7);
  versions.acquire(7);
  versions.begin_write().copy_(saved);
  versions.publish();
  EXPECT_EQ(versions.newest(), 8);
  EXPECT_TRUE(versions.flat(7).equal(before));
  EXPECT_TRUE(versions.flat(8).equal(saved));
  versions.release(7);
  EXPECT_DEATH(versions.flat(0), "W\\(0\\) is wanted");
}

TEST(Versions, WithOneBufferTheUpdateIsInPlace) {
  const Layout layout(affine_model(), 0, 1);
  Versions versions(layout, /*kept=*/1, 1);
  const void* only = versions.flat(0).data_ptr();
  const Tensor w0 = versions.flat(0).clone();
  for (int t = 1; t <= 3; ++t) {
    update(versions, 1);
    EXPECT_EQ(versions.flat(t).data_ptr(), only);
  }
  EXPECT_TRUE(at::allclose(versions.flat(3), w0 + 3));
  EXPECT_EQ(versions.peak_live(), 1);
}

TEST(Versions, ParametersAreViewsOfTheFlatBuffer) {
  const Layout layout(toy_model(), 0, 4);
  Versions versions(layout, 2, 1);
  const auto parameters = versions.parameters(0);
  ASSERT_EQ(parameters.size(), 8u);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& parameter = layout.parameters()[i];
    EXPECT_EQ(parameters[i].data_ptr<float>(), versions.flat(0).data_ptr<float>() + parameter.offset);
    EXPECT_EQ(parameters[i].sizes(), at::IntArrayRef(parameter.spec.shape));
    EXPECT_TRUE(parameters[i].is_leaf());
    EXPECT_TRUE(parameters[i].requires_grad());
  }
}

// 2BW as stage 0 of two runs it: a version is held from the forward to the backward, and never more
// than two are live.
TEST(Versions, NeverMoreThanTheKeptVersionsAreLive) {
  const Layout layout(affine_model(), 0, 1);
  for (int kept : {1, 2, 4}) {
    Versions versions(layout, kept, 1);
    EXPECT_EQ(versions.kept(), kept);
    for (int t = 0; t < 10; ++t) {
      versions.acquire(t);                                    // a microbatch on the newest is in flight
      if (t - kept + 1 >= 0) versions.release(t - kept + 1);  // the oldest one's backward is done
      update(versions, 0.5);
      EXPECT_LE(versions.peak_live(), kept);
    }
    EXPECT_EQ(versions.peak_live(), kept);
  }
}

TEST(Versions, TheNewestIsLiveThoughNobodyUsesItYet) {
  const Layout layout(affine_model(), 0, 1);
  Versions versions(layout, 2, 1);
  update(versions, 1);
  EXPECT_EQ(versions.peak_live(), 1);  // W(0) had no user left
  versions.acquire(1);
  update(versions, 1);
  EXPECT_EQ(versions.peak_live(), 2);
}

TEST(VersionsDeathTest, OverwritingAVersionInFlightIsABug) {
  const Layout layout(affine_model(), 0, 1);
  Versions versions(layout, 2, 1);
  versions.acquire(0);
  versions.acquire(0);
  update(versions, 1);
  EXPECT_DEATH(versions.begin_write(),
               "W\\(2\\) would overwrite W\\(0\\), which 2 microbatches in flight still need");
  versions.release(0);
  EXPECT_DEATH(versions.begin_write(), "which 1 microbatches");
  versions.release(0);
  versions.begin_write();

  Versions single(layout, 1, 1);
  single.acquire(0);
  EXPECT_DEATH(single.begin_write(), "W\\(1\\) would overwrite W\\(0\\)");
}

TEST(VersionsDeathTest, AskingForARetiredOrAFutureVersionIsABug) {
  const Layout layout(affine_model(), 0, 1);
  Versions versions(layout, 2, 1);
  EXPECT_DEATH(versions.acquire(1), "W\\(1\\) is wanted, its buffer holds W\\(-1\\), newest is W\\(0\\)");
  EXPECT_DEATH(versions.release(0), "W\\(0\\) released more often than acquired");
  update(versions, 1);
  update(versions, 1);
  EXPECT_DEATH(versions.flat(0), "W\\(0\\) is wanted, its buffer holds W\\(2\\)");
  EXPECT_DEATH(versions.parameters(0), "W\\(0\\) is wanted");
}

TEST(Versions, ABackwardRunsOnItsVersionAfterTheNextWasWritten) {
  const Layout layout(affine_model(), 0, 1);
  Versions versions(layout, 2, 1);
  const Tensor weight0 = versions.parameters(0)[0].detach().clone();
  const Tensor bias0 = versions.parameters(0)[1].detach().clone();

  const Tensor x0 = some_input(), x1 = some_input();
  const Tensor loss0 = loss_of(versions.acquire(0), x0);
  update(versions, 1);
  const Tensor loss1 = loss_of(versions.acquire(1), x1);  // both graphs are alive
  torch::autograd::backward({loss0}, {});
  torch::autograd::backward({loss1}, {});

  const auto gradient_at = [](const Tensor& weight, const Tensor& bias, const Tensor& x) {
    return at::addmm(bias, x.detach(), weight.t()).mul(2).mm(weight);
  };
  EXPECT_TRUE(at::allclose(x0.grad(), gradient_at(weight0, bias0, x0)));
  EXPECT_TRUE(at::allclose(x1.grad(), gradient_at(weight0 + 1, bias0 + 1, x1)));
  EXPECT_FALSE(at::allclose(versions.parameters(0)[0].grad(), versions.parameters(1)[0].grad()));
}

TEST(Versions, AGraphOnOverwrittenWeightsRefusesItsBackward) {
  const Layout layout(affine_model(), 0, 1);
  for (int kept : {1, 2}) {
    Versions versions(layout, kept, 1);
    const Tensor loss = loss_of(versions.parameters(0), some_input());  // not acquired: nobody protects it
    for (int t = 0; t < kept; ++t) update(versions, 1);
    try {
      torch::autograd::backward({loss}, {});
      FAIL() << "ran on weights that are gone";
    } catch (const c10::Error& error) {
      EXPECT_NE(std::string(error.what()).find("modified by an inplace operation"), std::string::npos);
    }
  }
}

TEST(ParameterViews, WritingOneDoesNotTouchTheGraphOfAnother) {
  const Layout layout(affine_model(), 0, 1);
  const Tensor flat = at::ones({layout.size()});
  const std::vector<Tensor> views = parameter_views(layout, flat);
  const Tensor x = some_input();
  const Tensor loss = x.matmul(views[0].t()).sum();
  {
    at::NoGradGuard no_grad;
    views[1].fill_(5);
  }
  EXPECT_EQ(views[0]._version(), 0u);
  torch::autograd::backward({loss}, {});
  EXPECT_TRUE(at::equal(x.grad(), at::full({4, 3}, 2.0)));
  EXPECT_EQ(flat[layout.parameters()[1].offset].item<double>(), 5);  // the memory is shared, though
}

std::map<std::string, Tensor> initial_weights(const std::vector<std::pair<int, int>>& split,
                                              std::uint64_t seed) {
  const architecture::Model model = toy_model();
  std::map<std::string, Tensor> weights;
  for (const auto& [first, last] : split) {
    const Layout layout(model, first, last);
    const Versions versions(layout, 1, seed);
    for (std::size_t i = 0; i < layout.parameters().size(); ++i) {
      weights[layout.parameters()[i].spec.name] = versions.parameters(0)[i].detach().clone();
    }
  }
  return weights;
}

TEST(Versions, InitialWeightsDependOnSeedAndName) {
  const auto one = initial_weights({{0, 4}}, 7), other = initial_weights({{0, 4}}, 8);
  EXPECT_FALSE(at::equal(one.at("tokens"), other.at("tokens")));
  EXPECT_FALSE(at::equal(one.at("one.weight"), one.at("two.weight")));
  EXPECT_TRUE(at::equal(one.at("gain"), at::ones({3})));
  EXPECT_TRUE(at::equal(one.at("one.bias"), at::zeros({3})));
}

TEST(Versions, ATiedCopyStartsEqualToItsPrimary) {
  for (const auto& split : all_splits(4)) {
    const auto weights = initial_weights(split, 7);
    EXPECT_TRUE(at::equal(weights.at("head"), weights.at("tokens"))) << split.size() << " stages";
  }
}

TEST(Versions, InitialWeightsHaveTheSpreadTheirSpecAsksFor) {
  const Layout layout(toy_model({{{.name = "w", .shape = {100, 100}, .init_std = 0.02, .init_mean = 3.0}}}),
                      0, 1);
  const Versions versions(layout, 1, 0);
  EXPECT_NEAR(versions.flat(0).mean().item<double>(), 3.0, 0.001);
  EXPECT_NEAR(versions.flat(0).std().item<double>(), 0.02, 0.001);
}

}  // namespace
}  // namespace twobw::weights
