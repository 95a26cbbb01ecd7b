// A stage's microbatches and updates on a GPU. A microbatch's forward and backward are captured once and
// launched from then on (graphs.h), so that the thread never lags behind the device.
#include <ATen/core/grad_mode.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <utility>
#include <vector>

#include "engine/device/gpu.h"
#include "engine/optim/gpu_optimizer.h"
#include "engine/runtime/backward.h"
#include "engine/runtime/gpu/graphs.h"
#include "engine/runtime/gpu/staging.h"
#include "engine/runtime/stage_compute.h"
#include "planning/architecture/layer.h"

namespace twobw::runtime {
namespace {

using at::Tensor;
using device::check_cuda;

// Norms of a stage in another process, to be uploaded.
Tensor pinned(const std::vector<double>& values) {
  std::lock_guard lock(gpu::capture_mutex());  // a capture forbids such an allocation to all threads
  const Tensor host = at::empty({std::ssize(values)}, at::TensorOptions(at::kDouble).pinned_memory(true));
  std::ranges::copy(values, host.mutable_data_ptr<double>());
  return host;
}

// A last layer that adds to the gradient in its forward is too early while an update still waits for the only
// gradient buffer. Its forward is then launched by the backward that follows it at once.
bool launches_forwards_late(const StageState& state) {
  const StageSetup& setup = state.setup;
  return state.model.layers[setup.last_layer - 1].gradients_in_forward &&
         (setup.versions > 1 || setup.predicts) && setup.gradient_buffers == 1;
}

// The place of one microbatch in flight, and its way through the layers: what graphs capture.
class Slot {
 public:
  // `pass` serves every microbatch; its tensors are where theirs are copied to.
  Slot(const StageState& state, const models::MicrobatchContext& pass) : state_(state), pass_(pass) {}

  const models::MicrobatchContext& pass() const { return pass_; }

  // Queue work on the current stream. A backward follows the forward of the same slot with the same
  // parameters, and accumulates their gradients. It takes the gradients of the outputs and returns those of
  // the inputs.
  Tensors forward(std::span<const Tensor> parameters, const Tensors& inputs);
  Tensors backward(std::span<const Tensor> parameters, const Tensors& gradients);

 private:
  const StageState& state_;
  models::MicrobatchContext pass_;
  Tensors leaves_;                    // the inputs as autograd sees them, until the backward
  torch::autograd::edge_list roots_;  // the outputs in the graph, until the backward; empty if recomputed
};

Tensors Slot::forward(std::span<const Tensor> parameters, const Tensors& inputs) {
  leaves_.clear();
  for (const Tensor& input : inputs) leaves_.push_back(input.detach().set_requires_grad(true));
  at::AutoGradMode with_graph(!state_.setup.recompute);
  const Tensors outputs = state_.run_layers(parameters, leaves_, pass_);
  if (!state_.setup.recompute) roots_ = roots_of(outputs);
  Tensors plain;
  for (const Tensor& output : outputs) plain.push_back(output.detach());
  return plain;
}

Tensors Slot::backward(std::span<const Tensor> parameters, const Tensors& gradients) {
  if (state_.setup.recompute) {
    at::AutoGradMode with_graph(true);
    roots_ = roots_of(state_.run_layers(parameters, leaves_, pass_));
  }
  run_backward(roots_, gradients);
  roots_.clear();
  Tensors of_inputs;
  for (Tensor& leaf : leaves_) {
    of_inputs.push_back(leaf.grad());
    leaf.mutable_grad().reset();
  }
  leaves_.clear();
  return of_inputs;
}

class GpuCompute final : public StageCompute {
 public:
  explicit GpuCompute(StageState& state) : GpuCompute(state, state.initial_weights()) {}
  GpuCompute(StageState& state, const Tensor& initial);

  Tensors forward(std::int64_t microbatch, int slot, std::int64_t generation, const Tensors& inputs) override;
  Tensors backward(std::int64_t microbatch, int slot, std::int64_t generation,
                   const Tensors& gradients) override;
  transport::Norms squared_norms(std::int64_t batch) override;
  PendingStep step(const StepWork& work) override;
  void predict(const optim::Prediction& prediction) override {
    host_copies_.await();
    optimizer_.predict(prediction);
  }
  Tensor host_copy(const Tensor& tensor) override { return host_copies_.copy(tensor); }
  void finish_snapshot(Snapshot& snapshot) override;
  void restore(const optim::Counters& counters) override { optimizer_.restore(counters); }

 private:
  gpu::GraphPair& graphs_of(int slot, std::int64_t generation, std::int64_t batch) {
    return graphs_.pair(slot, static_cast<int>(generation % state_.versions.kept()),
                        static_cast<int>(batch % state_.gradients.count()));
  }
  void make_slots();
  void set_dropout_key(std::int64_t microbatch, int index);
  Tensors launch_forward(std::int64_t microbatch, int index, std::int64_t generation);
  Tensors run_forward(int index, std::span<const Tensor> parameters) {
    return slots_[index].forward(parameters, boundary_.inputs(index));
  }
  Tensors run_backward(int index, std::span<const Tensor> parameters, const Tensors& gradients) {
    return slots_[index].backward(parameters, state_.is_last() ? Tensors{one_} : gradients);
  }
  void warm_up(int index, std::span<const Tensor> parameters);

  StageState& state_;
  cudaStream_t stream_;
  bool forwards_late_;
  optim::GpuOptimizer optimizer_;
  std::vector<Slot> slots_;
  gpu::Graphs graphs_;
  gpu::Boundary boundary_;
  Tensor one_, loss_sum_;
  Tensor loss_scale_;  // of the batch that runs, at a fixed address; see models::MicrobatchContext
  gpu::Uploads uploads_;
  gpu::Results results_;
  gpu::HostCopies host_copies_;
  bool warm_ = false;
};

GpuCompute::GpuCompute(StageState& state, const Tensor& initial)
    : state_(state),
      stream_(c10::cuda::getCurrentCUDAStream()),
      forwards_late_(launches_forwards_late(state)),
      optimizer_(state.config.optimizer, state.layout, initial, state.newest(), state.setup.predicts,
                 state.shard()),
      graphs_(state.setup.slots, state.setup.recompute, state.footprint),
      boundary_(state.setup, state.footprint),
      uploads_(state.config, state.microbatches, state.setup.replica, stream_),
      results_(stream_),
      host_copies_(static_cast<int>(state.newest().get_device())) {
  state.optimizer = optimizer_.state();
  const Tensor& weights = state.newest();
  weights.copy_(initial);
  optimizer_.begin_scaling(loss_scaling_of(state.config.train));
  if (state.scales_loss()) loss_scale_ = at::ones({1}, weights.options().dtype(at::kDouble));
  make_slots();
  one_ = at::ones({}, weights.options().dtype(at::kFloat));
  loss_sum_ = at::zeros({}, one_.options().dtype(at::kDouble));
  state.footprint[Term::Weights] = static_cast<double>(weights.nbytes()) * state.versions.kept();
  state.footprint[Term::Gradients] = static_cast<double>(state.gradients.flat(0).nbytes()) *
                                     (state.gradients.count() + (state.partial.defined() ? 1 : 0));
  optimizer_.add_to(state.footprint);
}

void GpuCompute::make_slots() {
  const auto on_gpu = state_.newest().options();
  const architecture::BatchFields fields = state_.microbatches.fields();
  const int sequences = state_.config.pipeline.microbatch, context = state_.config.model.context;
  for (int slot = 0; slot < state_.setup.slots; ++slot) {
    models::MicrobatchContext pass{.training = true, .loss_scale = loss_scale_, .room = &state_.room};
    for (const data::Field field : architecture::kFields) {
      if (fields.has(field)) pass.batch[field] = data::make_field(field, sequences, context, on_gpu).zero_();
    }
    if (state_.config.model.dropout > 0) pass.key_on_gpu = at::zeros({1}, on_gpu.dtype(at::kLong));
    slots_.emplace_back(state_, pass);
    state_.footprint[Term::Inputs] += 8.0 * static_cast<double>(fields.count(sequences, context));
  }
}

// Before the first capture, as gpu::Graphs requires.
void GpuCompute::warm_up(int index, std::span<const Tensor> parameters) {
  const Tensors outputs = run_forward(index, parameters);
  Tensors nothing;
  if (!state_.is_last()) {
    for (const Tensor& output : outputs) nothing.push_back(at::zeros_like(output));
  }
  run_backward(index, parameters, nothing);
  for (int buffer = 0; buffer < state_.gradients.count(); ++buffer) state_.gradients.flat(buffer).zero_();
  check_cuda(cudaStreamSynchronize(stream_), "warming up");
  if (state_.room.defined()) state_.footprint[Term::Working] += static_cast<double>(state_.room.nbytes());
  warm_ = true;
}

Tensors GpuCompute::forward(std::int64_t microbatch, int index, std::int64_t generation,
                            const Tensors& inputs) {
  state_.versions.acquire(generation);
  if (!state_.microbatches.fields().empty()) {
    uploads_.send(microbatch, slots_[index].pass().batch);
    state_.data_waited = uploads_.waited();
  }
  set_dropout_key(microbatch, index);
  boundary_.take_inputs(index, inputs);
  return forwards_late_ ? Tensors() : launch_forward(microbatch, index, generation);
}

// The slot's graphs read it until the slot's next forward.
void GpuCompute::set_dropout_key(std::int64_t microbatch, int index) {
  const Tensor& key = slots_[index].pass().key_on_gpu;
  if (!key.defined()) return;
  key.fill_(
      static_cast<std::int64_t>(state_.microbatches.keys(state_.setup.replica, microbatch).dropout_key()));
}

Tensors GpuCompute::launch_forward(std::int64_t microbatch, int index, std::int64_t generation) {
  const std::int64_t batch = state_.batch_of(microbatch);
  const int microbatches = state_.config.pipeline.microbatches;
  // The last stage finishes a batch before it begins the next, so one address is enough.
  if (loss_scale_.defined() && microbatch % microbatches == 0)
    loss_scale_.copy_(optimizer_.loss_scale_of(batch), /*non_blocking=*/true);
  gpu::GraphPair& graphs = graphs_of(index, generation, batch);
  if (!graphs.forward) {
    std::lock_guard lock(gpu::capture_mutex());
    const auto parameters = state_.versions.parameters(generation);
    state_.gradients.attach(batch, parameters);
    if (!warm_) warm_up(index, parameters);
    graphs_.capture_forward(index, graphs, [&] { return run_forward(index, parameters); });
  }
  graphs.forward->replay();
  if (!state_.is_last()) return graphs.outputs;
  loss_sum_.add_(graphs.outputs.front());
  if ((microbatch + 1) % microbatches == 0) {
    results_.fetch_loss(batch, loss_sum_);
    loss_sum_.zero_();
  }
  return {};
}

Tensors GpuCompute::backward(std::int64_t microbatch, int index, std::int64_t generation,
                             const Tensors& gradients) {
  if (forwards_late_) launch_forward(microbatch, index, generation);
  const std::int64_t batch = state_.batch_of(microbatch);
  const Tensors& found = boundary_.take_gradients(index, gradients);
  gpu::GraphPair& graphs = graphs_of(index, generation, batch);
  if (!graphs.backward) {
    std::lock_guard lock(gpu::capture_mutex());
    const auto parameters = state_.versions.parameters(generation);
    state_.gradients.attach(batch, parameters);
    graphs_.capture_backward(graphs, [&] { return run_backward(index, parameters, found); });
  }
  graphs.backward->replay();
  state_.versions.release(generation);
  return state_.setup.first_layer == 0 ? Tensors() : boundary_.hand_back(microbatch, graphs.of_inputs);
}

transport::Norms GpuCompute::squared_norms(std::int64_t batch) {
  // On the current stream, which may be that of a sum (engine/transport/replica_sum.h).
  const Tensor norms = optimizer_.squared_norms(batch, state_.gradients.flat(batch));
  return {.on_gpu = norms, .ready = device::record_stream_event()};
}

PendingStep GpuCompute::step(const StepWork& work) {
  host_copies_.await();
  Tensors of_stages;
  for (const transport::Norms& of_stage : work.norms)
    of_stages.push_back(of_stage.on_gpu.defined() ? of_stage.on_gpu : pinned(of_stage.values));
  optimizer_.queue_update(work.learning_rate, of_stages, state_.gradients.flat(work.update), work.source,
                          work.target, work.next);
  if (work.miss != nullptr) work.miss->finish(state_.true_weights());
  results_.fetch_control(work.update, optimizer_.control());
  return [this, update = work.update] {
    const gpu::Results::Result& result = results_.await(update);
    StepResult step{optim::applied_of(result.control)};
    if (state_.is_last()) step.loss = result.loss;
    return step;
  };
}

void GpuCompute::finish_snapshot(Snapshot& snapshot) {
  const Tensor counts = host_copy(optimizer_.counts());
  snapshot.await = [made = host_copies_.made(), counts](Snapshot& of) {
    check_cuda(cudaEventSynchronize(static_cast<cudaEvent_t>(made.get())), "a snapshot");
    of.counters = optim::GpuOptimizer::read_counts(counts);
  };
}

}  // namespace

std::unique_ptr<StageCompute> make_gpu_compute(StageState& state) {
  return std::make_unique<GpuCompute>(state);
}

}  // namespace twobw::runtime
