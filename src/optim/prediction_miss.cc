#include "optim/prediction_miss.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>

namespace twobw::optim {
namespace {

using at::Tensor;

constexpr std::int64_t kPiece = 1 << 20;  // elements at a time, since differences take memory

Tensor squared_distance(const Tensor& predicted, const Tensor& weights) {
  at::NoGradGuard no_grad;
  Tensor sum = at::zeros({}, predicted.options().dtype(at::kDouble));
  for (std::int64_t begin = 0; begin < predicted.numel(); begin += kPiece) {
    const std::int64_t count = std::min(kPiece, predicted.numel() - begin);
    const Tensor rounded = weights.narrow(0, begin, count).to(predicted.scalar_type()).to(at::kFloat);
    const Tensor difference = predicted.narrow(0, begin, count).to(at::kFloat).sub(rounded);
    sum.add_(difference.square_().sum(at::kDouble));
  }
  return sum;
}

}  // namespace

PredictionMiss::PredictionMiss(const Tensor& predicted, const Tensor& weights)
    : predicted_(predicted), step_(squared_distance(predicted, weights)) {}

void PredictionMiss::finish(const Tensor& weights) {
  const Tensor both = at::stack({step_, squared_distance(predicted_, weights)});
  found_ = at::empty({2}, at::TensorOptions(at::kDouble).pinned_memory(both.is_cuda()));
  found_.copy_(both, /*non_blocking=*/true);
  predicted_ = step_ = Tensor();
}

}  // namespace twobw::optim
