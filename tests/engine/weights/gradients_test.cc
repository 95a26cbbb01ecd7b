#include "engine/weights/double_buffer.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "engine/models/ops.h"
#include "toy_model.h"

namespace twobw::weights {
namespace {

using at::Tensor;

TEST(Gradients, ABatchUsesTheBufferOfItsNumber) {
  const Layout layout(toy_model(), 0, 4);
  const Gradients gradients(layout, 2);
  EXPECT_EQ(gradients.count(), 2);
  EXPECT_EQ(gradients.flat(0).data_ptr(), gradients.flat(2).data_ptr());
  EXPECT_EQ(gradients.flat(1).data_ptr(), gradients.flat(3).data_ptr());
  EXPECT_NE(gradients.flat(0).data_ptr(), gradients.flat(1).data_ptr());
  EXPECT_TRUE(at::equal(gradients.flat(0), at::zeros({layout.gradient_size()})));
  EXPECT_TRUE(at::equal(gradients.flat(1), at::zeros({layout.gradient_size()})));
}

// Batch 0 accumulates over two microbatches; batch 1 begins before batch 0's gradient is used up.
TEST(Gradients, BackwardsAccumulateIntoTheBatchTheyAreAttachedTo) {
  const architecture::Model model =
      toy_model({{{.name = "weight", .shape = {2, 3}, .init_std = 1.0}, {.name = "bias", .shape = {2}}}});
  const Layout layout(model, 0, 1);
  Versions versions(layout, 1, 0);
  const Gradients gradients(layout, 2);
  const auto parameters = versions.parameters(0);
  const auto backward = [&](double value) {
    const Tensor x = at::full({1, 3}, value);
    torch::autograd::backward({models::ops::linear(x, parameters[0], parameters[1]).sum()}, {});
  };

  gradients.attach(0, parameters);
  backward(1);
  backward(2);
  gradients.attach(1, parameters);
  backward(10);

  EXPECT_TRUE(at::equal(gradients.of(0, 0), at::full({2, 3}, 3.0)));
  EXPECT_TRUE(at::equal(gradients.of(0, 1), at::full({2}, 2.0)));
  EXPECT_TRUE(at::equal(gradients.of(1, 0), at::full({2, 3}, 10.0)));
  EXPECT_TRUE(at::equal(gradients.of(1, 1), at::full({2}, 1.0)));
}

TEST(Gradients, PlainAutogradAccumulatesThereToo) {
  const Layout layout(toy_model({{{.name = "gain", .shape = {3}, .init_mean = 1.0}}}), 0, 1);
  Versions versions(layout, 2, 0);
  const Gradients gradients(layout, 1);
  for (int i = 0; i < 2; ++i) {
    gradients.attach(0, versions.parameters(0));
    torch::autograd::backward({(versions.parameters(0)[0] * 5).sum()}, {});
  }
  EXPECT_TRUE(at::equal(gradients.of(0, 0), at::full({3}, 10.0)));
}

TEST(Gradients, TiedPartnersOnOneStageKeepTheirGradientsApart) {
  const Layout layout(toy_model(), 0, 4);
  Versions versions(layout, 1, 0);
  const Gradients gradients(layout, 1);
  const auto parameters = versions.parameters(0);
  gradients.attach(0, parameters);
  const Tensor& tokens = parameters.front();
  const Tensor& head = parameters.back();
  torch::autograd::backward({(tokens * 2).sum() + (head * 3).sum()}, {});
  EXPECT_TRUE(at::equal(gradients.of(0, 0), at::full({7, 3}, 2.0)));
  EXPECT_TRUE(at::equal(gradients.of(0, 7), at::full({7, 3}, 3.0)));
}

}  // namespace
}  // namespace twobw::weights
