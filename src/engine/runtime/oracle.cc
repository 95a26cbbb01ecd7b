// The serial oracle. It restates every rule of an update and shares no code with the pipeline for them.
#include "engine/runtime/oracle.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/base/error.h"
#include "engine/optim/optimizer.h"
#include "engine/weights/double_buffer.h"
#include "engine/weights/layout.h"

namespace twobw::runtime {

using at::Tensor;

struct Oracle::Part {
  struct Version {
    std::int64_t number = 0;
    bool predicted = false;
    Tensor flat;
    std::vector<Tensor> parameters;
  };

  Part(const Oracle& oracle, int stage)
      : layout(oracle.model_.layers, oracle.spec_.shape.first_layer(stage),
               oracle.spec_.shape.last_layer(stage)),
        gradients(layout, oracle.spec_.shape.replicas, oracle.compute_),
        history(3 + oracle.spec_.shape.stages + oracle.spec_.shape.extra) {
    Tensor initial = at::zeros({layout.size()}, at::kFloat);
    weights::initialize(layout, initial, oracle.config_);
    Tensor first = initial.to(oracle.compute_, /*non_blocking=*/false, /*copy=*/true);
    const bool predicts = oracle.spec_.shape.schedule == schedule::Kind::TwoBW && oracle.spec_.shape.predict;
    optimizer = optim::make_optimizer(oracle.config_, layout, initial, first, predicts);
    add_version({.flat = std::move(first)});
    if (predicts) choose_gradients(oracle.spec_, stage);
  }

  // Batch j begins at stage r when n_r = d - r and its share of e are in flight, so m - n_r + 1 of batch j-1
  // are not; of several replicas one fewer, whose sum is made while that one runs.
  void choose_gradients(const schedule::Spec& spec, int stage) {
    const int after = spec.shape.stages - 1 - stage;
    const double share = after == 0 ? 0 : std::ceil(1.0 * spec.shape.extra * after / (spec.shape.stages - 1));
    predict_from = spec.shape.microbatches - after - static_cast<int>(share);
    if (spec.shape.replicas > 1 && predict_from > 1) --predict_from;
    ratio = static_cast<double>(spec.shape.microbatches) / predict_from;
    partial = at::zeros_like(gradients.flat(0));
  }

  void add_version(Version version) {
    version.parameters = weights::parameter_views(layout, version.flat);
    versions.push_back(std::move(version));
    if (versions.size() > history) versions.pop_front();
  }

  const Version& version(std::int64_t number, bool predicted) const {
    const auto found = std::ranges::find_if(versions, [&](const Version& version) {
      return version.number == number && version.predicted == predicted;
    });
    TWOBW_ASSERT(found != versions.end(), "{}({}) is not kept; the oldest is of {}", predicted ? 'P' : 'W',
                 number, versions.front().number);
    return *found;
  }

  Tensor true_weights() const { return optimizer->true_weights(versions.back().flat); }

  weights::Layout layout;
  weights::Gradients gradients;  // a buffer a replica
  std::size_t history;           // versions, as many as any rule can still ask for
  std::deque<Version> versions;  // computed with: W, or predictions of it
  std::unique_ptr<optim::StageOptimizer> optimizer;
  int predict_from = 0;  // microbatches
  double ratio = 1;
  Tensor partial;  // their gradient, of all replicas
};

Oracle::Oracle(const Config& config, const models::Model& model, const data::Source& training,
               const schedule::Spec& spec, const at::TensorOptions& compute)
    : config_(config),
      model_(model),
      training_(training),
      microbatches_(config, training, training, architecture::taken_by(model.layers, 0, model.size())),
      spec_(spec),
      compute_(compute) {
  for (int stage = 0; stage < spec.shape.stages; ++stage)
    parts_.push_back(std::make_unique<Part>(*this, stage));
}

Oracle::~Oracle() = default;

// Written down from the table of the design once more, on purpose not shared with schedule/.
bool Oracle::begins_drained(std::int64_t batch) const {
  return batch <= spec_.sync_updates;  // batch 0, synchronous ones and the one after them
}

bool Oracle::predicts(std::int64_t batch) const {
  return spec_.shape.schedule == schedule::Kind::TwoBW && spec_.shape.predict && !begins_drained(batch);
}

// The first microbatch of a batch that runs on W(j) and not on P(j): d-1+e+slack, if as many as d-1+e are
// left after it and there is a second gradient buffer; else none does.
int Oracle::true_from() const {
  const PipelineShape& shape = spec_.shape;
  const std::int64_t fill = shape.stages > 1 ? shape.stages - 1 + shape.extra : 0, slack = shape.step_slack;
  const bool waits = shape.double_buffer_gradients && shape.stages * shape.replicas > 1;
  if (!waits || 2 * fill + slack > shape.microbatches) return shape.microbatches;
  return std::max(1, static_cast<int>(fill + slack));
}

bool Oracle::runs_predicted(std::int64_t microbatch) const {
  const std::int64_t m = spec_.shape.microbatches;
  return predicts(microbatch / m) && microbatch % m < true_from();
}

std::int64_t Oracle::version_by_rule(int stage, std::int64_t microbatch) const {
  const std::int64_t m = spec_.shape.microbatches, j = microbatch / m, start = spec_.sync_updates;
  if (spec_.shape.schedule == schedule::Kind::TwoBW) {
    return begins_drained(j) || predicts(j) ? j : j - 1;
  }
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

// Restated, too: replays the batches that every stage knows when this one begins, all but the previous one.
double Oracle::loss_scale(std::int64_t batch) const {
  if (config_.train.precision != "fp16") return 1;
  std::vector<double> scales = {config_.train.loss_scale, config_.train.loss_scale};
  int in_a_row = 0;
  for (std::int64_t known = 0; known + 2 <= batch; ++known) {
    double scale = scales.back();
    in_a_row = skipped_[known] ? 0 : in_a_row + 1;
    if (skipped_[known]) scale = std::max(1.0, std::min(scale, scales[known] / 2));
    if (in_a_row == config_.train.loss_scale_window) {
      scale = std::min(scale * 2, std::exp2(24));
      in_a_row = 0;
    }
    scales.push_back(scale);
  }
  return scales[batch];
}

double Oracle::run_microbatch(int replica, std::int64_t microbatch) {
  models::MicrobatchContext pass = microbatches_.training(replica, microbatch).to(compute_.device());
  if (config_.train.precision == "fp16")
    pass.loss_scale = at::full({1}, loss_scale(updates_), compute_.dtype(at::kDouble));
  models::Tensors x;
  for (int stage = 0; stage < stages(); ++stage) {
    const Part& part = *parts_[stage];
    const Part::Version& weights =
        part.version(version_by_rule(stage, microbatch), runs_predicted(microbatch));
    for (int layer = part.layout.first_layer(); layer < part.layout.last_layer(); ++layer) {
      const auto [begin, end] = part.layout.range(layer);
      pass.layer = layer;
      x = model_.forwards[layer](std::span(weights.parameters).subspan(begin, end - begin), x, pass);
    }
  }
  torch::autograd::backward(x, {});
  return x.front().item<double>();
}

// The replica's part of the loss.
double Oracle::run_batch(int replica) {
  for (const auto& part : parts_) {
    for (const Part::Version& version : part->versions) part->gradients.attach(replica, version.parameters);
  }
  double loss = 0;
  for (int i = 1; i <= spec_.shape.microbatches; ++i) {
    loss += run_microbatch(replica, updates_ * spec_.shape.microbatches + i - 1);
    for (const auto& part : parts_) {
      if (i != part->predict_from) continue;
      const Tensor& so_far = part->gradients.flat(replica);
      replica == 0 ? part->partial.copy_(so_far) : part->partial.add_(so_far);
    }
  }
  return loss;
}

// Both ends of a tie apply the sum of their gradients.
void Oracle::sum_ties() {
  std::map<std::string, Tensor> primaries;
  for (const auto& part : parts_) {
    for (const weights::Tie& tie : part->layout.ties()) {
      if (tie.primary < 0) continue;
      const Tensor& sum = part->gradients.of(0, tie.primary);
      if (tie.copy >= 0) sum.add_(part->gradients.of(0, tie.copy));
      primaries[part->layout.parameters()[tie.primary].spec.name] = sum;
    }
  }
  for (const auto& part : parts_) {
    for (const weights::Tie& tie : part->layout.ties()) {
      if (tie.primary >= 0) continue;
      const Tensor& sum = primaries.at(part->layout.parameters()[tie.copy].spec.tied_to);
      sum.add_(part->gradients.of(0, tie.copy));
      part->gradients.of(0, tie.copy).copy_(sum);
    }
  }
}

double Oracle::learning_rate() const {
  return optim::learning_rate(config_.optimizer, config_.train.updates, updates_);
}

// P(j+1) from W(j), its state and the stages' partial gradients of batch j, without the sum of ties that span
// stages.
void Oracle::predict() {
  for (const auto& part : parts_) {
    for (const weights::Tie& tie : part->layout.ties()) {
      if (tie.primary < 0 || tie.copy < 0) continue;
      const auto of = [&](int index) {
        const weights::Parameter& parameter = part->layout.parameters()[index];
        return part->partial.narrow(0, parameter.gradient_offset, parameter.count);
      };
      of(tie.primary).add_(of(tie.copy));
    }
    Tensor predicted = at::empty({part->layout.size()}, compute_);
    part->optimizer->predict({.learning_rate = learning_rate(),
                              .ratio = part->ratio,
                              .gradient = part->partial,
                              .target = predicted});
    part->add_version({.number = updates_ + 1, .predicted = true, .flat = std::move(predicted)});
  }
}

void Oracle::apply(OracleUpdate& result) {
  std::vector<Tensor> norms;
  for (const auto& part : parts_)
    norms.push_back(part->optimizer->squared_norms(updates_, part->gradients.flat(0)));
  for (const auto& part : parts_) {
    const bool computed_with = !predicts(updates_ + 1) || true_from() < spec_.shape.microbatches;
    Tensor next = computed_with ? at::empty({part->layout.size()}, compute_) : Tensor();
    const optim::Applied applied = part->optimizer->apply(learning_rate(), norms, part->gradients.flat(0),
                                                          part->versions.back().flat, next);
    result.gradient_norm = applied.gradient_norm;
    result.skipped = applied.skipped;
    if (computed_with) part->add_version({.number = updates_ + 1, .flat = std::move(next)});
    const auto checksums =
        weights::layer_checksums(part->layout, part->true_weights().to(at::kCPU, at::kFloat));
    result.checksums.insert(result.checksums.end(), checksums.begin(), checksums.end());
  }
}

OracleUpdate Oracle::next_update() {
  OracleUpdate result{.update = updates_, .loss_scale = loss_scale(updates_)};
  for (int replica = 0; replica < spec_.shape.replicas; ++replica) {
    result.loss += run_batch(replica);
    if (replica == 0) continue;
    for (const auto& part : parts_) {
      part->gradients.flat(0).add_(part->gradients.flat(replica));
      part->gradients.flat(replica).zero_();
    }
  }
  if (predicts(updates_ + 1)) predict();
  sum_ties();
  apply(result);
  skipped_.push_back(result.skipped);
  ++updates_;
  return result;
}

const weights::Layout& Oracle::layout(int stage) const {
  return parts_[stage]->layout;
}

Tensor Oracle::newest_weights(int stage) const {
  return parts_[stage]->true_weights().to(at::kCPU, at::kFloat);
}

double Oracle::evaluate(const data::Source& validation) const {
  MicrobatchSource microbatches(config_, training_, validation, microbatches_.fields());
  at::NoGradGuard no_grad;
  std::vector<std::vector<Tensor>> parameters;
  for (const auto& part : parts_)
    parameters.push_back(weights::parameter_views(part->layout, part->true_weights().to(compute_)));
  double sum = 0;
  for (std::int64_t index = 0; index < microbatches.validation_microbatches(); ++index) {
    const models::MicrobatchContext pass = microbatches.validation(index).to(compute_.device());
    models::Tensors x;
    for (int stage = 0; stage < stages(); ++stage) {
      const weights::Layout& layout = parts_[stage]->layout;
      x = models::run_layers(model_, layout.first_layer(), layout.last_layer(), parameters[stage],
                             std::move(x), pass);
    }
    sum += x.front().item<double>();
  }
  return sum;
}

}  // namespace twobw::runtime
