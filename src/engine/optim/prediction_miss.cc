#include "engine/optim/prediction_miss.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>

namespace twobw::optim {
namespace {

using at::Tensor;

// Elements at a time, since differences and their sum take 12 bytes each: few on a CPU, whose caches hold
// them, many on a GPU.
std::int64_t piece_for(const Tensor& weights) {
  return weights.is_cuda() ? 1 << 20 : 1 << 14;
}

Tensor squared_distance(const Tensor& predicted, const Tensor& weights) {
  at::NoGradGuard no_grad;
  Tensor sum = at::zeros({}, predicted.options().dtype(at::kDouble));
  const std::int64_t piece = piece_for(predicted);
  for (std::int64_t begin = 0; begin < predicted.numel(); begin += piece) {
    const std::int64_t count = std::min(piece, predicted.numel() - begin);
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
