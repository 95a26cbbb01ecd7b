#include "runtime/stage.h"

#include <ATen/core/grad_mode.h>

#include "base/error.h"
#include "device/memory.h"
#include "runtime/backward.h"
#include "runtime/pass.h"
#include "weights/checksum.h"

namespace twobw::runtime {

using at::Tensor;
using device::PurposeScope;
using device::Term;

namespace {

Tensors detached(const Tensors& tensors) {
  Tensors result;
  for (const Tensor& tensor : tensors) result.push_back(tensor.detach());
  return result;
}

}  // namespace

Stage::Stage(const Config& config, const models::LayerList& model, const data::Source& training,
             const data::Source& validation, const StageSetup& setup)
    : config_(config),
      model_(model),
      training_(training),
      validation_(validation),
      setup_(setup),
      layout_(model, setup.first_layer, setup.last_layer),
      versions_(layout_, setup.versions, config.train.seed),
      gradients_(layout_, setup.gradient_buffers),
      optimizer_(config.optimizer, layout_, config.pipeline.sync_updates, versions_.flat(0)),
      in_flight_(setup.slots) {}

Tensors Stage::run_layers(std::span<const Tensor> parameters, Tensors x, models::Pass& pass) const {
  for (int layer = setup_.first_layer; layer < setup_.last_layer; ++layer) {
    const auto [begin, end] = layout_.range(layer);
    pass.layer = layer;
    x = model_[layer]->forward(parameters.subspan(begin, end - begin), x, pass);
  }
  return x;
}

Tensors Stage::forward(std::int64_t microbatch, int slot, std::int64_t version, const Tensors& inputs) {
  InFlight& flight = in_flight_[slot];
  TWOBW_ASSERT(!flight.pass.tokens.defined(), "slot {} is taken when microbatch {} comes", slot, microbatch);
  const auto parameters = versions_.acquire(version);
  {
    const PurposeScope purpose(Term::Inputs);
    flight.pass = training_pass(config_, training_, setup_.replica, microbatch);
  }
  for (const Tensor& input : inputs) flight.inputs.push_back(input.detach().set_requires_grad(true));
  PurposeScope purpose(Term::Working);
  at::AutoGradMode with_graph(!setup_.recompute);
  const Tensors outputs = run_layers(parameters, flight.inputs, flight.pass);
  if (!setup_.recompute) flight.roots = roots_of(outputs);
  purpose.keep_as(Term::Activations);
  return detached(outputs);
}

Tensors Stage::backward(std::int64_t microbatch, int slot, std::int64_t version, const Tensors& gradients) {
  InFlight flight = std::exchange(in_flight_[slot], {});
  const auto parameters = versions_.parameters(version);
  gradients_.attach(microbatch / config_.pipeline.microbatches, parameters);
  if (setup_.recompute) flight.roots = roots_of(run_layers(parameters, flight.inputs, flight.pass));
  run_backward(flight.roots, gradients);
  versions_.release(version);
  Tensors of_inputs;
  for (const Tensor& input : flight.inputs) of_inputs.push_back(input.grad());
  return of_inputs;
}

Tensors Stage::evaluate(std::int64_t index, const Tensors& inputs) {
  at::NoGradGuard no_grad;
  models::Pass pass = validation_pass(config_, validation_, index);
  return run_layers(weights::parameter_views(layout_, newest_weights()), inputs, pass);
}

void Stage::sum_local_ties(std::int64_t batch) {
  for (const weights::Tie& tie : layout_.ties()) {
    if (tie.primary >= 0 && tie.copy >= 0)
      gradients_.of(batch, tie.primary).add_(gradients_.of(batch, tie.copy));
  }
}

int Stage::spanning_tie() const {
  for (const weights::Tie& tie : layout_.ties()) {
    if (tie.primary < 0 || tie.copy < 0) return std::max(tie.primary, tie.copy);
  }
  return -1;
}

bool Stage::holds_tie_primary() const {
  return spanning_tie() >= 0 && layout_.parameters()[spanning_tie()].spec.tied_to.empty();
}

bool Stage::holds_tie_copy() const {
  return spanning_tie() >= 0 && !layout_.parameters()[spanning_tie()].spec.tied_to.empty();
}

// A copy: the buffer itself is cleared by the step, which does not wait for the other end.
Tensor Stage::tied_gradient(std::int64_t batch) const {
  const PurposeScope purpose(Term::Transfer);
  return gradients_.of(batch, spanning_tie()).clone();
}

void Stage::add_tied_gradient(std::int64_t batch, const Tensor& other) {
  gradients_.of(batch, spanning_tie()).add_(other);
}

std::vector<std::pair<std::int64_t, std::int64_t>> Stage::tied_ranges() const {
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
  for (const weights::Tie& tie : layout_.ties()) {
    if (tie.primary < 0) continue;
    const weights::Parameter& parameter = layout_.parameters()[tie.primary];
    ranges.emplace_back(parameter.gradient_offset, parameter.count);
  }
  return ranges;
}

std::vector<double> Stage::squared_norms(std::int64_t batch) const {
  return optim::squared_norms(layout_, gradients_.flat(batch));
}

void Stage::step(const optim::Update& update) {
  const Tensor source = versions_.flat(versions_.newest());
  const Tensor target = versions_.begin_write();
  optimizer_.apply(update, gradients_.flat(update.index), source, target);
  versions_.publish();
}

const Tensor& Stage::newest_weights() const {
  return optimizer_.true_weights(versions_.flat(versions_.newest()));
}

std::vector<std::uint64_t> Stage::layer_checksums() const {
  return weights::layer_checksums(layout_, newest_weights());
}

}  // namespace twobw::runtime
