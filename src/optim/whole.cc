#include "optim/whole.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>

#include "base/optimizer_kinds.h"

namespace twobw::optim {

using at::Tensor;

namespace {

Tensor view(const Tensor& flat, const weights::Parameter& parameter) {
  return flat.narrow(0, parameter.offset, parameter.count).view(parameter.spec.shape);
}

}  // namespace

std::vector<GroupValues> values_by_parameter(const OptimizerConfig& config, const weights::Layout& layout) {
  std::vector<GroupValues> values;
  for (const weights::Parameter& parameter : layout.parameters())
    values.push_back(group_values(config, parameter.spec.group_name(), parameter.spec.decay));
  return values;
}

Tensor orthogonalized(const Tensor& matrix, at::ScalarType format) {
  constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;
  const bool tall = matrix.size(0) > matrix.size(1);
  Tensor x = tall ? matrix.t() : matrix;
  x = (x / (x.norm() + 1e-7)).to(format).contiguous();
  for (int step = 0; step < 5; ++step) {
    const Tensor square = x.mm(x.t());
    x = at::addmm(x, at::addmm(square, square, square, kB, kC), x, kA, 1);
  }
  return (tall ? x.t() : x).to(at::kFloat);
}

bool WholeParameters::has(const weights::Parameter& parameter) const {
  switch (optimizer_kind(config_.name).rule) {
    case OptimizerRule::Lamb:
      return true;
    case OptimizerRule::Muon:
      return parameter.spec.matrices > 0;
    default:
      return false;
  }
}

WholeParameters::Moved WholeParameters::muon(const weights::Parameter& parameter, const Tensor& w,
                                             const Tensor& momentum, const Tensor& gradient) const {
  const Tensor m = config_.momentum * momentum + gradient;
  const Tensor ahead = gradient + config_.momentum * m;
  std::vector<Tensor> parts;
  for (const Tensor& part : ahead.chunk(parameter.spec.matrices, 0))
    parts.push_back(orthogonalized(part, format_));
  const double larger = static_cast<double>(std::max(parts.front().size(0), parts.front().size(1)));
  const double decay = values_of(parameter).weight_decay;
  return {.update = -(decay * w + 0.2 * std::sqrt(larger) * at::cat(parts, 0)), .moment1 = m};
}

WholeParameters::Moved WholeParameters::lamb(const weights::Parameter& parameter, const Tensor& w,
                                             const Tensor& m, const Tensor& v, const Tensor& gradient,
                                             const WholeScalars& scalars) const {
  const double beta1 = config_.betas[0], beta2 = config_.betas[1];
  const Tensor n = scalars.applied + 1;
  Moved moved{.moment1 = beta1 * m + (1 - beta1) * gradient,
              .moment2 = beta2 * v + (1 - beta2) * gradient.square()};
  const Tensor mean = moved.moment1 / (1 - at::pow(beta1, n)).to(at::kFloat);
  const Tensor deviation = (moved.moment2 / (1 - at::pow(beta2, n)).to(at::kFloat)).sqrt();
  Tensor direction = mean / (deviation + config_.eps);
  if (const double decay = values_of(parameter).weight_decay; decay > 0) {
    direction = direction + decay * w;
    const Tensor ratio = w.norm() / direction.norm();
    direction = direction * at::where(ratio.isfinite().logical_and(ratio > 0), ratio, at::ones_like(ratio));
  }
  moved.update = -direction;
  return moved;
}

WholeParameters::Moved WholeParameters::move(const weights::Parameter& parameter, const WholeBuffers& buffers,
                                             const WholeScalars& scalars) const {
  const Tensor w = view(buffers.source, parameter), m = view(buffers.moment1, parameter);
  const Tensor gradient = view(buffers.gradient, parameter) * scalars.gradient_scale;
  const double rate = scalars.learning_rate * values_of(parameter).rate;
  const auto at_rate = [rate](Moved moved) {
    moved.update = rate * moved.update;
    return moved;
  };
  if (optimizer_kind(config_.name).rule == OptimizerRule::Muon)
    return at_rate(muon(parameter, w, m, gradient));
  return at_rate(lamb(parameter, w, m, view(buffers.moment2, parameter), gradient, scalars));
}

void WholeParameters::apply(const WholeBuffers& buffers, const WholeScalars& scalars) const {
  at::NoGradGuard no_grad;
  for (const weights::Parameter& parameter : layout_.parameters()) {
    if (parameter.alias || !has(parameter)) continue;
    const Moved moved = move(parameter, buffers, scalars);
    const auto keep = [&](const Tensor& flat, const Tensor& next) {
      if (!next.defined()) return;
      const Tensor now = view(flat, parameter);
      now.copy_(at::where(scalars.skip, now, next));
    };
    const Tensor w = view(buffers.source, parameter);
    const Tensor next = at::where(scalars.skip, w, w + moved.update);
    keep(buffers.moment1, moved.moment1);
    keep(buffers.moment2, moved.moment2);
    view(buffers.target, parameter).copy_(next);
    if (buffers.compute.defined()) view(buffers.compute, parameter).copy_(next);
    view(buffers.gradient, parameter).zero_();
  }
}

void WholeParameters::predict(const WholeBuffers& buffers, const WholeScalars& scalars) const {
  at::NoGradGuard no_grad;
  for (const weights::Parameter& parameter : layout_.parameters()) {
    if (parameter.alias || !has(parameter)) continue;
    const Tensor update = move(parameter, buffers, scalars).update;
    const Tensor finite = at::where(update.isfinite(), update, at::zeros_like(update));
    view(buffers.compute, parameter).copy_(view(buffers.source, parameter) + finite);
  }
}

}  // namespace twobw::optim
