#include "engine/optim/tensorwise.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "core/base/kinds.h"

namespace twobw::optim {

using at::Tensor;

namespace {

constexpr std::int64_t kTogether = 1 << 24;  // elements that are multiplied at once, for the memory it takes

bool is_tall(const Tensor& matrix) {
  return matrix.size(0) > matrix.size(1);
}

// Five steps on matrices of one shape with at least as many columns as rows.
Tensor newton_schulz(const Tensor& matrices, at::ScalarType format) {
  constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;
  const Tensor norms = at::linalg_vector_norm(matrices, 2, at::IntArrayRef{1, 2}, /*keepdim=*/true);
  Tensor x = (matrices / (norms + 1e-7)).to(format);
  for (int step = 0; step < 5; ++step) {
    const Tensor square = x.bmm(x.transpose(1, 2));
    x = at::baddbmm(x, at::baddbmm(square, square, square, kB, kC), x, kA, 1);
  }
  return x.to(at::kFloat);
}

}  // namespace

std::vector<GroupValues> values_by_parameter(const OptimizerConfig& config, const weights::Layout& layout) {
  std::vector<GroupValues> values;
  for (const weights::Parameter& parameter : layout.parameters())
    values.push_back(group_values(config, parameter.spec.group_name(), parameter.spec.decay));
  return values;
}

std::vector<Tensor> orthogonalized(const std::vector<Tensor>& matrices, at::ScalarType format) {
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<std::size_t>> by_shape;
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    const auto [least, most] = std::minmax({matrices[i].size(0), matrices[i].size(1)});
    by_shape[{least, most}].push_back(i);
  }
  std::vector<Tensor> results(matrices.size());
  for (const auto& [shape, members] : by_shape) {
    // One by one on a CPU and with deterministic GPU kernels, so that a matrix's rounding does not depend on
    // the others in its stage or shard.
    const bool alone = matrices.front().is_cpu() || at::globalContext().deterministicAlgorithms();
    const std::int64_t at_once =
        alone ? 1 : std::max<std::int64_t>(1, kTogether / (shape.first * shape.second));
    for (std::size_t begin = 0; begin < members.size(); begin += at_once) {
      const std::size_t end = std::min(members.size(), begin + static_cast<std::size_t>(at_once));
      std::vector<Tensor> wide;
      for (std::size_t i = begin; i < end; ++i) {
        const Tensor& matrix = matrices[members[i]];
        wide.push_back(is_tall(matrix) ? matrix.t() : matrix);
      }
      const std::vector<Tensor> orthogonal = newton_schulz(at::stack(wide), format).unbind(0);
      for (std::size_t i = begin; i < end; ++i) {
        const Tensor& result = orthogonal[i - begin];
        results[members[i]] = is_tall(matrices[members[i]]) ? result.t() : result;
      }
    }
  }
  return results;
}

TensorwiseOptimizer::TensorwiseOptimizer(const OptimizerConfig& config, const weights::Layout& layout,
                                         at::ScalarType format, const weights::Range& shard)
    : config_(config), format_(format) {
  const std::vector<GroupValues> values = values_by_parameter(config, layout);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const weights::Parameter& parameter = layout.parameters()[i];
    if (parameter.alias || !is_tensorwise(config, parameter) || !shard.holds(parameter.offset)) continue;
    members_.push_back({&parameter, values[i], parameter.offset - shard.begin});
  }
}

bool is_tensorwise(const OptimizerConfig& config, const weights::Parameter& parameter) {
  switch (optimizer_kind(config.name).rule) {
    case OptimizerRule::Lamb:
      return true;
    case OptimizerRule::Muon:
      return !parameter.spec.matrices.empty();
    default:
      return false;
  }
}

Tensor TensorwiseOptimizer::view(const Tensor& flat, const Member& member) {
  return flat.narrow(0, member.offset, member.parameter->count).view(member.parameter->spec.shape);
}

std::vector<Tensor> TensorwiseOptimizer::views(const Tensor& flat) const {
  std::vector<Tensor> result;
  for (const Member& member : members_) result.push_back(view(flat, member));
  return result;
}

TensorwiseOptimizer::TensorUpdates TensorwiseOptimizer::muon(const TensorwiseBuffers& buffers,
                                                             const Tensors& gradients,
                                                             double learning_rate) const {
  TensorUpdates result{.moment1 = at::_foreach_add(gradients, views(buffers.moment1), config_.momentum)};
  const Tensors looked_ahead = at::_foreach_add(gradients, result.moment1, config_.momentum);
  Tensors parts;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    for (const Tensor& part : looked_ahead[i].split_with_sizes(members_[i].parameter->spec.matrices, 0))
      parts.push_back(part);
  }
  // The matrices of a parameter may differ in size, and so in their factors.
  std::vector<at::Scalar> of_parts, of_weights;
  for (auto part = parts.begin(); const Member& member : members_) {
    const double rate = learning_rate * member.values.rate;
    of_weights.emplace_back(-rate * member.values.weight_decay);
    for (const auto end = part + std::ssize(member.parameter->spec.matrices); part != end; ++part) {
      const double larger = static_cast<double>(std::max(part->size(0), part->size(1)));
      of_parts.emplace_back(-rate * 0.2 * std::sqrt(larger));
    }
  }
  const Tensors turned = at::_foreach_mul(orthogonalized(parts, format_), of_parts);
  for (auto part = turned.begin(); const Member& member : members_) {
    const auto end = part + std::ssize(member.parameter->spec.matrices);
    result.updates.push_back(part + 1 == end ? *part : at::cat(Tensors(part, end), 0));
    part = end;
  }
  at::_foreach_add_(result.updates, at::_foreach_mul(views(buffers.source), of_weights));
  return result;
}

TensorwiseOptimizer::TensorUpdates TensorwiseOptimizer::lamb(const TensorwiseBuffers& buffers,
                                                             const Tensors& gradients,
                                                             const TensorwiseScalars& scalars) const {
  const double beta1 = config_.betas[0], beta2 = config_.betas[1];
  const Tensor n = scalars.applied + 1;
  const Tensor correction1 = (1 - at::pow(beta1, n)).to(at::kFloat);
  const Tensor correction2 = (1 - at::pow(beta2, n)).to(at::kFloat);
  TensorUpdates result;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const Member& member = members_[i];
    const GroupValues& values = member.values;
    const Tensor w = view(buffers.source, member);
    const Tensor m = beta1 * view(buffers.moment1, member) + (1 - beta1) * gradients[i];
    const Tensor v = beta2 * view(buffers.moment2, member) + (1 - beta2) * gradients[i].square();
    Tensor direction = (m / correction1) / ((v / correction2).sqrt() + config_.eps);
    if (values.weight_decay > 0) {
      direction = direction + values.weight_decay * w;
      const Tensor ratio = w.norm() / direction.norm();
      direction = direction * at::where(ratio.isfinite().logical_and(ratio > 0), ratio, at::ones_like(ratio));
    }
    result.updates.push_back(-scalars.learning_rate * values.rate * direction);
    result.moment1.push_back(m);
    result.moment2.push_back(v);
  }
  return result;
}

TensorwiseOptimizer::TensorUpdates TensorwiseOptimizer::compute_updates(
    const TensorwiseBuffers& buffers, const TensorwiseScalars& scalars) const {
  const Tensors gradients = at::_foreach_mul(views(buffers.gradient), scalars.gradient_scale);
  return optimizer_kind(config_.name).rule == OptimizerRule::Muon
             ? muon(buffers, gradients, scalars.learning_rate)
             : lamb(buffers, gradients, scalars);
}

void TensorwiseOptimizer::apply(const TensorwiseBuffers& buffers, const TensorwiseScalars& scalars) const {
  if (members_.empty()) return;
  at::NoGradGuard no_grad;
  const TensorUpdates result = compute_updates(buffers, scalars);
  const Tensors sources = views(buffers.source), targets = views(buffers.target);
  const Tensors next = at::_foreach_add(sources, result.updates);
  const auto keep = [&](const Tensors& now, const Tensors& coming, const Tensors& to) {
    for (std::size_t i = 0; i < coming.size(); ++i) {
      Tensor out = to[i];
      at::where_out(out, scalars.skip, now[i], coming[i]);
    }
  };
  keep(sources, next, targets);
  const Tensors moment1 = views(buffers.moment1);
  keep(moment1, result.moment1, moment1);
  if (!result.moment2.empty()) {
    const Tensors moment2 = views(buffers.moment2);
    keep(moment2, result.moment2, moment2);
  }
  if (buffers.compute.defined()) at::_foreach_copy_(views(buffers.compute), targets);
  at::_foreach_zero_(views(buffers.gradient));
}

void TensorwiseOptimizer::predict(const TensorwiseBuffers& buffers, const TensorwiseScalars& scalars) const {
  if (members_.empty()) return;
  at::NoGradGuard no_grad;
  Tensors updates = compute_updates(buffers, scalars).updates;
  for (Tensor& update : updates) update.nan_to_num_(0.0, 0.0, 0.0);
  at::_foreach_copy_(views(buffers.compute), at::_foreach_add(views(buffers.source), updates));
}

}  // namespace twobw::optim
