#include "models/pooling.h"

#include <gtest/gtest.h>

#include <cmath>

namespace twobw::models {
namespace {

// Three sequences of 4, 2 and 1 tokens; what is padding is not a number.
TEST(Pooling, LeavesPaddingOut) {
  const at::Tensor lengths = at::tensor({4, 2, 1}, at::kLong);
  at::Tensor hidden = at::arange(24, at::kFloat).view({3, 4, 2});
  hidden[1].narrow(0, 2, 2).fill_(NAN);
  hidden[2].narrow(0, 1, 3).fill_(NAN);
  const auto pooled = [&](Pooling pooling) { return pool(pooling, hidden, lengths); };
  EXPECT_TRUE(pooled(Pooling::Mean).equal(at::tensor({3.F, 4.F, 9.F, 10.F, 16.F, 17.F}).view({3, 2})));
  EXPECT_TRUE(pooled(Pooling::Cls).equal(at::tensor({0.F, 1.F, 8.F, 9.F, 16.F, 17.F}).view({3, 2})));
  EXPECT_TRUE(pooled(Pooling::Last).equal(at::tensor({6.F, 7.F, 10.F, 11.F, 16.F, 17.F}).view({3, 2})));
}

}  // namespace
}  // namespace twobw::models
