// A stage on a GPU: what its layers and its optimizer compute. A microbatch's forward and backward are
// captured once and launched from then on (graphs.h), so that the thread never lags behind the device.
#include <ATen/core/grad_mode.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <mutex>
#include <utility>
#include <vector>

#include "engine/device/gpu.h"
#include "engine/device/stream_event.h"
#include "engine/optim/gpu_optimizer.h"
#include "engine/runtime/gpu/boundary.h"
#include "engine/runtime/gpu/graphs.h"
#include "engine/runtime/gpu/host_copies.h"
#include "engine/runtime/gpu/memory.h"
#include "engine/runtime/gpu/slot.h"
#include "engine/runtime/gpu/staging.h"
#include "engine/runtime/pass.h"
#include "engine/runtime/stage.h"
#include "planning/architecture/layer.h"

namespace twobw::runtime {
namespace {

using at::Tensor;
using device::check_cuda;

// Norms of a stage in another process, to be uploaded.
Tensor pinned(const std::vector<double>& values) {
  std::lock_guard lock(gpu::capture_mutex());  // which forbids such an allocation to all threads
  const Tensor host = at::empty({std::ssize(values)}, at::TensorOptions(at::kDouble).pinned_memory(true));
  std::ranges::copy(values, host.mutable_data_ptr<double>());
  return host;
}

class GpuStage final : public Stage {
 public:
  GpuStage(const Config& config, const models::Model& model, const data::Source& training,
           const data::Source& validation, const StageSetup& setup, const at::TensorOptions& compute);

  Tensors forward(std::int64_t microbatch, int slot, std::int64_t generation, const Tensors& inputs) override;
  Tensors backward(std::int64_t microbatch, int slot, std::int64_t generation,
                   const Tensors& gradients) override;
  Tensors evaluate(std::int64_t index, const Tensors& inputs) override;
  Tensor tied_gradient(std::int64_t batch, int tie) override;
  transport::Norms squared_norms(std::int64_t batch) override;
  void step(std::int64_t update, double learning_rate, std::span<const transport::Norms> norms, bool writes,
            const NextBatch* next) override;
  void predict(const NextBatch& next) override;
  StepResult finish_step(std::int64_t update) override;
  int steps_ahead() const override { return 2; }
  void finish() override;
  double data_waited() const override { return uploads_.waited(); }
  Tensor newest_weights() const override {
    return final_weights_.defined() ? final_weights_ : copy_weights();
  }
  Footprint peak() const override { return footprint_; }

 protected:
  Tensor host_copy(const Tensor& tensor) override {
    reserved_.reset();
    return host_copies_.copy(tensor);
  }
  const optim::State& optimizer_state() const override { return optimizer_.state(); }
  Tensor device_weights() const override {
    return optimizer_.true_weights(versions_.flat(versions_.newest()));
  }
  void finish_snapshot(Snapshot& snapshot) override;
  void restore_counters(const optim::Counters& counters) override { optimizer_.restore(counters); }

 private:
  // Elements of the tensors of a microbatch that its layers read.
  std::int64_t batch_count() const {
    return passes_.fields().count(config_.pipeline.microbatch, config_.model.context);
  }
  Tensor copy_weights() const;
  gpu::GraphPair& graphs_of(int slot, std::int64_t generation, std::int64_t batch) {
    return graphs_.pair(slot, static_cast<int>(generation % versions_.kept()),
                        static_cast<int>(batch % gradients_.count()));
  }
  void make_slots();
  void set_dropout_key(std::int64_t microbatch, int index);
  Tensors launch_forward(std::int64_t microbatch, int index, std::int64_t generation);
  Tensors run_forward(int index, std::span<const Tensor> parameters) {
    return slots_[index].forward(parameters, boundary_.inputs(index));
  }
  Tensors run_backward(int index, std::span<const Tensor> parameters, const Tensors& gradients) {
    return slots_[index].backward(parameters, is_last() ? Tensors{one_} : gradients);
  }
  void warm_up(int index, std::span<const Tensor> parameters);
  void make_room_for_snapshots();

  cudaStream_t stream_;
  // A last layer that adds to the gradient in its forward is too early while an update still waits for the
  // one gradient buffer there is: then the forward is launched by the backward, which follows it at once.
  bool forwards_late_;
  Footprint footprint_;
  Tensor initial_;  // until it is on the device
  optim::GpuOptimizer optimizer_;
  std::vector<gpu::Slot> slots_;
  gpu::Graphs graphs_;
  gpu::Boundary boundary_;
  Tensor one_, loss_sum_;
  Tensor loss_scale_;  // of the batch that runs, where graphs find it; see models::Pass
  Tensor room_;        // that all slots' graphs compute in, see models::Pass; made when warming up
  std::vector<std::array<Tensor, 2>> tie_parts_;  // a tie; not of those within the stage
  gpu::Uploads uploads_;
  gpu::Results results_;
  gpu::HostCopies host_copies_;
  std::optional<Snapshot> reserved_;
  Tensor final_weights_;
  bool warm_ = false;
};

GpuStage::GpuStage(const Config& config, const models::Model& model, const data::Source& training,
                   const data::Source& validation, const StageSetup& setup, const at::TensorOptions& compute)
    : Stage(config, model, training, validation, setup, compute),
      stream_(c10::cuda::getCurrentCUDAStream()),
      forwards_late_(model.layers[setup.last_layer - 1].gradients_in_forward &&
                     (setup.versions > 1 || setup.predicts) && setup.gradient_buffers == 1),
      initial_(initial_weights()),
      optimizer_(config.optimizer, layout_, initial_, versions_.flat(0), setup.predicts, shard()),
      graphs_(setup.slots, setup.recompute, footprint_),
      boundary_(setup, footprint_),
      uploads_(config, passes_, setup.replica, stream_),
      results_(stream_),
      host_copies_(static_cast<int>(versions_.flat(0).get_device())) {
  versions_.flat(0).copy_(std::exchange(initial_, Tensor()));
  optimizer_.begin_scaling(loss_scaling_of(config.train));
  if (scales_loss()) loss_scale_ = at::ones({1}, versions_.flat(0).options().dtype(at::kDouble));
  make_slots();
  one_ = at::ones({}, versions_.flat(0).options().dtype(at::kFloat));
  loss_sum_ = at::zeros({}, one_.options().dtype(at::kDouble));
  for (int tie = 0; tie < static_cast<int>(layout_.ties().size()); ++tie) {
    tie_parts_.emplace_back();
    if (!layout_.ties()[tie].spans()) continue;
    for (Tensor& part : tie_parts_.back()) part = at::empty_like(gradients_.of(0, tied_parameter(tie)));
    footprint_[Term::Transfer] += 2.0 * static_cast<double>(tie_parts_.back()[0].nbytes());
  }
  footprint_[Term::Weights] = static_cast<double>(versions_.flat(0).nbytes()) * versions_.kept();
  footprint_[Term::Gradients] =
      static_cast<double>(gradients_.flat(0).nbytes()) * (gradients_.count() + (partial_.defined() ? 1 : 0));
  optimizer_.add_to(footprint_);
  if (setup.saves) make_room_for_snapshots();
}

// Pinned memory takes a second for a gigabyte. What is given back is there for the next copies, of any stage:
// so it is kept until this one needs it.
void GpuStage::make_room_for_snapshots() {
  const std::array<std::int64_t, 1> newest = {versions_.newest()};
  save_compute(newest, /*predicted=*/false);
  Snapshot first = snapshot(0);
  first.await(first);
  reserved_ = std::move(first);
}

void GpuStage::make_slots() {
  const auto on_gpu = versions_.flat(0).options();
  for (int slot = 0; slot < setup_.slots; ++slot) {
    models::Pass pass{.training = true, .loss_scale = loss_scale_, .room = &room_};
    for (const data::Field field : architecture::kFields) {
      if (!passes_.fields().has(field)) continue;
      pass.batch[field] =
          data::make_field(field, config_.pipeline.microbatch, config_.model.context, on_gpu).zero_();
    }
    if (config_.model.dropout > 0) pass.key_on_gpu = at::zeros({1}, on_gpu.dtype(at::kLong));
    slots_.emplace_back(model_, setup_, pass);
    footprint_[Term::Inputs] += 8.0 * static_cast<double>(batch_count());
  }
}

Tensor GpuStage::copy_weights() const {
  return optimizer_.true_weights(versions_.flat(versions_.newest())).to(at::kCPU, at::kFloat);
}

// Before the first capture, as gpu::Graphs asks.
void GpuStage::warm_up(int index, std::span<const Tensor> parameters) {
  const Tensors outputs = run_forward(index, parameters);
  Tensors nothing;
  if (!is_last()) {
    for (const Tensor& output : outputs) nothing.push_back(at::zeros_like(output));
  }
  run_backward(index, parameters, nothing);
  for (int buffer = 0; buffer < gradients_.count(); ++buffer) gradients_.flat(buffer).zero_();
  check_cuda(cudaStreamSynchronize(stream_), "warming up");
  if (room_.defined()) footprint_[Term::Working] += static_cast<double>(room_.nbytes());
  warm_ = true;
}

Tensors GpuStage::forward(std::int64_t microbatch, int index, std::int64_t generation,
                          const Tensors& inputs) {
  versions_.acquire(generation);
  if (!passes_.fields().empty()) uploads_.send(microbatch, slots_[index].pass().batch);
  set_dropout_key(microbatch, index);
  boundary_.take_inputs(index, inputs);
  return forwards_late_ ? Tensors() : launch_forward(microbatch, index, generation);
}

// Where the slot's graphs read it, until its next forward.
void GpuStage::set_dropout_key(std::int64_t microbatch, int index) {
  const Tensor& key = slots_[index].pass().key_on_gpu;
  if (!key.defined()) return;
  key.fill_(static_cast<std::int64_t>(passes_.keys(setup_.replica, microbatch).dropout_key()));
}

Tensors GpuStage::launch_forward(std::int64_t microbatch, int index, std::int64_t generation) {
  const std::int64_t batch = batch_of(microbatch);
  // The last stage is done with a batch before it begins the next, so one place is enough.
  if (loss_scale_.defined() && microbatch % config_.pipeline.microbatches == 0)
    loss_scale_.copy_(optimizer_.loss_scale_of(batch), /*non_blocking=*/true);
  gpu::GraphPair& graphs = graphs_of(index, generation, batch);
  if (!graphs.forward) {
    std::lock_guard lock(gpu::capture_mutex());
    const auto parameters = versions_.parameters(generation);
    gradients_.attach(batch, parameters);
    if (!warm_) warm_up(index, parameters);
    graphs_.capture_forward(index, graphs, [&] { return run_forward(index, parameters); });
  }
  graphs.forward->replay();
  if (!is_last()) return graphs.outputs;
  loss_sum_.add_(graphs.outputs.front());
  if ((microbatch + 1) % config_.pipeline.microbatches == 0) {
    results_.fetch_loss(batch, loss_sum_);
    loss_sum_.zero_();
  }
  return {};
}

Tensors GpuStage::backward(std::int64_t microbatch, int index, std::int64_t generation,
                           const Tensors& gradients) {
  if (forwards_late_) launch_forward(microbatch, index, generation);
  const Tensors& found = boundary_.take_gradients(index, gradients);
  gpu::GraphPair& graphs = graphs_of(index, generation, batch_of(microbatch));
  if (!graphs.backward) {
    std::lock_guard lock(gpu::capture_mutex());
    const auto parameters = versions_.parameters(generation);
    gradients_.attach(batch_of(microbatch), parameters);
    graphs_.capture_backward(graphs, [&] { return run_backward(index, parameters, found); });
  }
  graphs.backward->replay();
  versions_.release(generation);
  return setup_.first_layer == 0 ? Tensors() : boundary_.hand_back(microbatch, graphs.of_inputs);
}

// Rare, so it is not captured; the queue is empty when it returns, so that the memory of what passes between
// stages can be used again.
Tensors GpuStage::evaluate(std::int64_t index, const Tensors& inputs) {
  at::NoGradGuard no_grad;
  models::Pass pass = passes_.validation(index).to(versions_.flat(versions_.newest()).device());
  pass.room = &room_;
  const Tensor weights = weights_to_evaluate();
  Tensors outputs = run_layers(weights::parameter_views(layout_, weights), inputs, pass);
  check_cuda(cudaStreamSynchronize(stream_), "evaluation");
  return outputs;
}

Tensor GpuStage::tied_gradient(std::int64_t batch, int tie) {
  const Tensor& part = tie_parts_[tie][batch % 2];
  part.copy_(gradients_.of(batch, tied_parameter(tie)), /*non_blocking=*/true);
  return part;
}

transport::Norms GpuStage::squared_norms(std::int64_t batch) {
  // Which may be beside the stage's own: see engine/transport/replica_sum.h.
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
  const Tensor norms = optimizer_.squared_norms(batch, gradients_.flat(batch), stream);
  return {.on_gpu = norms, .ready = device::record_stream_event()};
}

void GpuStage::step(std::int64_t update, double learning_rate, std::span<const transport::Norms> norms,
                    bool writes, const NextBatch* next) {
  host_copies_.await();
  const Tensor source = versions_.flat(versions_.newest());
  const Tensor target = writes ? versions_.begin_write() : Tensor();
  const optim::Prediction prediction = next ? prediction_for(*next) : optim::Prediction();
  Tensors of_stages;
  for (const transport::Norms& of_stage : norms)
    of_stages.push_back(of_stage.on_gpu.defined() ? of_stage.on_gpu : pinned(of_stage.values));
  begin_watch(update, optimizer_.true_weights(source));
  optimizer_.apply(learning_rate, of_stages, gradients_.flat(update), source, target, stream_,
                   next ? &prediction : nullptr);
  end_watch(update, optimizer_.true_weights(source));
  results_.fetch_control(update, optimizer_.control());
  if (!writes && next == nullptr) return;
  complete(next ? prediction.target : target);
  versions_.publish();
}

void GpuStage::predict(const NextBatch& next) {
  host_copies_.await();
  const optim::Prediction prediction = prediction_for(next);
  optimizer_.predict(prediction, stream_);
  complete(prediction.target);
  versions_.publish();
}

StepResult GpuStage::finish_step(std::int64_t update) {
  const gpu::Results::Result& result = results_.await(update);
  StepResult step{.gradient_norm = std::sqrt(result.control.squared_norm),
                  .skipped = result.control.skip != 0,
                  .loss_scale = result.control.loss_scale};
  if (is_last()) step.loss = result.loss;
  step.miss = take_miss(update);
  return step;
}

void GpuStage::finish_snapshot(Snapshot& snapshot) {
  const Tensor counts = host_copy(optimizer_.counts());
  snapshot.await = [made = host_copies_.made(), counts](Snapshot& of) {
    check_cuda(cudaEventSynchronize(static_cast<cudaEvent_t>(made.get())), "a snapshot");
    of.counters = optim::GpuOptimizer::read_counts(counts);
  };
}

// Where all weights are gathered there is no further use of gradients.
void GpuStage::finish() {
  const Tensor gathered = is_sharded() ? gather_weights(room_in_gradients()) : Tensor();
  check_cuda(cudaStreamSynchronize(stream_), "the last update");
  final_weights_ = is_sharded() ? gathered.to(at::kCPU) : copy_weights();
}

}  // namespace

std::unique_ptr<Stage> make_gpu_stage(const Config& config, const models::Model& model,
                                      const data::Source& training, const data::Source& validation,
                                      const StageSetup& setup, const at::TensorOptions& compute) {
  return std::make_unique<GpuStage>(config, model, training, validation, setup, compute);
}

}  // namespace twobw::runtime
