// A stage's microbatches and updates on CPU cores.
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/edge.h>

#include <map>

#include "core/base/error.h"
#include "engine/device/memory.h"
#include "engine/runtime/backward.h"
#include "engine/runtime/microbatches.h"
#include "engine/runtime/stage_compute.h"

namespace twobw::runtime {
namespace {

using at::Tensor;
using device::PurposeScope;

Tensors detached(const Tensors& tensors) {
  Tensors result;
  for (const Tensor& tensor : tensors) result.push_back(tensor.detach());
  return result;
}

// W(0) for the optimizer, which keeps it, or its shard, as the master of rounded weights. A replica with a
// shard has space for all weights in single precision only among the gradients.
Tensor first_weights(const StageState& state) {
  const Tensor& first = state.newest();
  if (first.scalar_type() == at::kFloat) return first;
  const PurposeScope purpose(Term::Master);
  const Tensor initial = state.is_sharded() ? state.weights_in_gradients() : state.initial_weights();
  if (state.is_sharded()) weights::initialize(state.layout, initial, state.config);
  first.copy_(initial);
  return initial;
}

class CpuCompute final : public StageCompute {
 public:
  explicit CpuCompute(StageState& state)
      : state_(state),
        optimizer_(state.config.optimizer, state.layout, first_weights(state), state.setup.predicts,
                   state.newest().scalar_type(), state.shard()),
        in_flight_(state.setup.slots),
        feed_(state.config, state.microbatches, state.setup.replica) {
    state.optimizer = optimizer_.state();
    if (state.is_sharded()) state.gradients.flat(0).zero_();  // see first_weights()
    optimizer_.begin_scaling(loss_scaling_of(state.config.train));
  }

  Tensors forward(std::int64_t microbatch, int slot, std::int64_t generation, const Tensors& inputs) override;
  Tensors backward(std::int64_t microbatch, int slot, std::int64_t generation,
                   const Tensors& gradients) override;
  transport::Norms squared_norms(std::int64_t batch) override;
  PendingStep step(const StepWork& work) override;
  void predict(const optim::Prediction& prediction) override { optimizer_.predict(prediction); }
  Tensor host_copy(const Tensor& tensor) override {
    const PurposeScope purpose(Term::Transfer);
    return tensor.detach().clone();
  }
  void finish_snapshot(Snapshot& snapshot) override { snapshot.counters = optimizer_.counters(); }
  void restore(const optim::Counters& counters) override { optimizer_.restore(counters); }

 private:
  struct InFlight {
    bool taken = false;
    models::MicrobatchContext pass;
    Tensors inputs;                    // leaves that require a gradient
    torch::autograd::edge_list roots;  // where the backward starts; empty under recomputation
  };

  StageState& state_;
  optim::Optimizer optimizer_;
  std::vector<InFlight> in_flight_;
  std::map<std::int64_t, double> losses_;  // by batch, summed over its microbatches so far
  Feed feed_;
};

Tensors CpuCompute::forward(std::int64_t microbatch, int slot, std::int64_t generation,
                            const Tensors& inputs) {
  InFlight& flight = in_flight_[slot];
  TWOBW_ASSERT(!flight.taken, "slot {} is taken when microbatch {} comes", slot, microbatch);
  flight.taken = true;
  const auto parameters = state_.versions.acquire(generation);
  const std::int64_t batch = state_.batch_of(microbatch);
  {
    const PurposeScope purpose(Term::Inputs);
    flight.pass = feed_.take(microbatch);
  }
  state_.data_waited = feed_.waited();
  if (state_.scales_loss())
    flight.pass.loss_scale = at::full({1}, scale_of(optimizer_.scaling(), batch), at::kDouble);
  for (const Tensor& input : inputs) flight.inputs.push_back(input.detach().set_requires_grad(true));
  PurposeScope purpose(Term::Working);
  at::AutoGradMode with_graph(!state_.setup.recompute);
  const Tensors outputs = state_.run_layers(parameters, flight.inputs, flight.pass);
  if (!state_.setup.recompute) flight.roots = roots_of(outputs);
  purpose.keep_as(Term::Activations);
  if (!state_.is_last()) return detached(outputs);
  losses_[batch] += outputs.front().item<double>();
  return {};
}

Tensors CpuCompute::backward(std::int64_t microbatch, int slot, std::int64_t generation,
                             const Tensors& gradients) {
  InFlight flight = std::exchange(in_flight_[slot], {});
  const auto parameters = state_.versions.parameters(generation);
  state_.gradients.attach(state_.batch_of(microbatch), parameters);
  if (state_.setup.recompute)
    flight.roots = roots_of(state_.run_layers(parameters, flight.inputs, flight.pass));
  run_backward(flight.roots, gradients);
  state_.versions.release(generation);
  Tensors of_inputs;
  for (const Tensor& input : flight.inputs) of_inputs.push_back(input.grad());
  return of_inputs;
}

transport::Norms CpuCompute::squared_norms(std::int64_t batch) {
  const weights::Range all{.count = state_.layout.size()};
  return {.values = optim::squared_norms(state_.layout, state_.gradients.flat(batch),
                                         state_.shard().value_or(all))};
}

PendingStep CpuCompute::step(const StepWork& work) {
  std::vector<double> squares;
  for (const transport::Norms& of_stage : work.norms)
    squares.insert(squares.end(), of_stage.values.begin(), of_stage.values.end());
  StepResult result{optimizer_.step(work.learning_rate, squares, state_.gradients.flat(work.update),
                                    work.source, work.target, work.next)};
  if (work.miss != nullptr) work.miss->finish(state_.true_weights());
  if (const auto loss = losses_.extract(work.update)) result.loss = loss.mapped();
  return [result] { return result; };
}

}  // namespace

std::unique_ptr<StageCompute> make_cpu_compute(StageState& state) {
  return std::make_unique<CpuCompute>(state);
}

}  // namespace twobw::runtime
