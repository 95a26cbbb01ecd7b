#include "runtime/oracle.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "optim/learning_rate.h"
#include "runtime/pass.h"
#include "weights/checksum.h"
#include "weights/double_buffer.h"

namespace twobw::runtime {

using at::Tensor;

Oracle::Oracle(const Config& config, const models::Model& model, const data::Source& training,
               const schedule::Spec& spec, const at::TensorOptions& compute)
    : config_(config),
      model_(model),
      training_(training),
      spec_(spec),
      layout_(model.layers, 0, model.size()),
      gradients_(layout_, spec.shape.replicas, compute),
      compute_(compute) {
  for (int stage = 0; stage < spec.shape.stages; ++stage)
    stage_of_layer_.insert(stage_of_layer_.end(), spec.shape.split.at(stage), stage);
  Tensor initial = at::zeros({layout_.size()}, at::kFloat);
  weights::initialize(layout_, initial, config.train.seed);
  Tensor first = initial.to(compute);
  optimizer_ = optim::make_serial_optimizer(config, layout_, initial, first);
  add_version(0, std::move(first));
}

void Oracle::add_version(std::int64_t number, Tensor flat) {
  Version version{.number = number, .flat = std::move(flat)};
  version.parameters = weights::parameter_views(layout_, version.flat);
  versions_.push_back(std::move(version));
  // The oldest that any rule can still ask for.
  const std::size_t history = 2 + spec_.shape.stages + spec_.shape.extra;
  if (versions_.size() > history) versions_.pop_front();
}

// Written down from the table of the design once more, on purpose not shared with schedule/.
std::int64_t Oracle::version_by_rule(int stage, std::int64_t microbatch) const {
  const std::int64_t m = spec_.shape.microbatches, j = microbatch / m, start = spec_.sync_updates;
  if (spec_.shape.schedule == schedule::Kind::TwoBW) return j <= start ? j : j - 1;
  if (spec_.shape.schedule == schedule::Kind::Stash && j >= start) {
    // The newest when its forward's turn comes: the backward of microbatch k - (d - r + e_r) just ended.
    const int after = spec_.shape.stages - 1 - stage;
    const double extra =
        after == 0 ? 0 : std::ceil(1.0 * spec_.shape.extra * after / (spec_.shape.stages - 1));
    const std::int64_t last_backward = microbatch - (1 + after + static_cast<std::int64_t>(extra));
    return last_backward < start * m ? start : (last_backward + 1) / m;
  }
  return j;
}

const Oracle::Version& Oracle::version(std::int64_t number) const {
  const auto found =
      std::find_if(versions_.begin(), versions_.end(), [&](const Version& v) { return v.number == number; });
  TWOBW_ASSERT(found != versions_.end(), "W({}) is not kept; the oldest is W({})", number,
               versions_.front().number);
  return *found;
}

models::Pass Oracle::on_device(models::Pass pass) const {
  pass.tokens = pass.tokens.to(compute_.device());
  pass.targets = pass.targets.to(compute_.device());
  return pass;
}

double Oracle::run_microbatch(int replica, std::int64_t microbatch) {
  models::Pass pass = on_device(training_pass(config_, training_, replica, microbatch));
  models::Tensors x;
  for (int layer = 0; layer < model_.size(); ++layer) {
    const Version& weights = version(version_by_rule(stage_of_layer_[layer], microbatch));
    const auto [begin, end] = layout_.range(layer);
    pass.layer = layer;
    x = model_.forwards[layer](std::span(weights.parameters).subspan(begin, end - begin), x, pass);
  }
  torch::autograd::backward(x, {});
  return x.front().item<double>();
}

OracleUpdate Oracle::next_update() {
  OracleUpdate result{.update = updates_};
  const at::Tensor& gradient = gradients_.flat(0);
  for (int replica = 0; replica < spec_.shape.replicas; ++replica) {
    for (const Version& version : versions_) gradients_.attach(replica, version.parameters);
    double loss = 0;
    for (std::int64_t k = updates_ * spec_.shape.microbatches; k < (updates_ + 1) * spec_.shape.microbatches;
         ++k)
      loss += run_microbatch(replica, k);
    result.loss += loss / (static_cast<double>(spec_.shape.microbatches) * spec_.shape.replicas);
    if (replica == 0) continue;
    gradient.add_(gradients_.flat(replica));
    gradients_.flat(replica).zero_();
  }
  for (const weights::Tie& tie : layout_.ties())
    gradients_.of(0, tie.primary).add_(gradients_.of(0, tie.copy));
  Tensor next = at::empty({layout_.size()}, compute_);
  const double rate = optim::learning_rate(config_.optimizer, config_.train.updates, updates_);
  const optim::Applied applied = optimizer_->apply(updates_, rate, gradient, versions_.back().flat, next);
  result.gradient_norm = applied.gradient_norm;
  result.skipped = applied.skipped;
  add_version(++updates_, std::move(next));
  result.checksums = weights::layer_checksums(layout_, newest_weights());
  return result;
}

Tensor Oracle::newest_weights() const {
  return optimizer_->true_weights(versions_.back().flat).to(at::kCPU, at::kFloat);
}

double Oracle::evaluate(const data::Source& validation) const {
  at::NoGradGuard no_grad;
  const Tensor weights = optimizer_->true_weights(versions_.back().flat).to(compute_);
  const std::vector<Tensor> parameters = weights::parameter_views(layout_, weights);
  double sum = 0;
  for (int index = 0; index < config_.train.eval_microbatches; ++index) {
    const models::Pass pass = on_device(validation_pass(config_, validation, index));
    const models::Tensors x = models::run_layers(model_, 0, model_.size(), parameters, {}, pass);
    sum += x.front().item<double>();
  }
  return sum / config_.train.eval_microbatches;
}

}  // namespace twobw::runtime
