// A stage on a GPU. Everything it computes for a microbatch is captured once into two graphs, its forward and
// its backward, and launched from then on, so that the thread never lags behind the device.
//
// A pair of graphs belongs to a slot, a weight buffer and a gradient buffer. Forwards of a slot take their
// memory from a pool of the slot's own, which the graphs of both weight buffers share, since a slot holds one
// microbatch at a time. All backwards share one pool, since they run one after the other, and so do forwards
// of which nothing is kept but what goes to the next stage.
#include <ATen/core/grad_mode.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/autograd/function.h>

#include <array>
#include <cmath>
#include <map>
#include <mutex>
#include <tuple>

#include "base/error.h"
#include "device/gpu.h"
#include "device/ready.h"
#include "optim/gpu_optimizer.h"
#include "runtime/backward.h"
#include "runtime/pass.h"
#include "runtime/stage.h"

namespace twobw::runtime {
namespace {

using at::Tensor;
using device::check_cuda;
using device::Term;

// Captures exclude one another, and while memory is counted nobody else may take any.
std::mutex& capture_mutex() {
  static std::mutex mutex;
  return mutex;
}

// Host memory that the device copies from and to.
template <typename T>
class Pinned {
 public:
  explicit Pinned(std::size_t count) {
    check_cuda(cudaMallocHost(reinterpret_cast<void**>(&data_), count * sizeof(T)), "cudaMallocHost");
  }
  ~Pinned() { cudaFreeHost(data_); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  T* data() const { return data_; }

 private:
  T* data_ = nullptr;
};

// Bytes that tensors on the thread's GPU take beyond those that were there when this was made.
class Watermark {
 public:
  Watermark() : before_(allocated().current) { c10::cuda::CUDACachingAllocator::resetPeakStats(gpu()); }
  double live() const { return static_cast<double>(allocated().current - before_); }
  double peak() const { return static_cast<double>(allocated().peak - before_); }

 private:
  static c10::DeviceIndex gpu() { return static_cast<c10::DeviceIndex>(c10::cuda::current_device()); }
  static c10::CachingAllocator::Stat allocated() {
    return c10::cuda::CUDACachingAllocator::getDeviceStats(gpu()).allocated_bytes[0];
  }
  std::int64_t before_;
};

// The tensor's memory, without keeping other captures from it.
Tensor place_of(const Tensor& tensor) {
  return at::for_blob(tensor.mutable_data_ptr(), tensor.sizes())
      .strides(tensor.strides())
      .options(tensor.options())
      .target_device(tensor.device())
      .make_tensor();
}

double bytes(const Tensors& tensors) {
  double sum = 0;
  for (const Tensor& tensor : tensors) sum += static_cast<double>(tensor.nbytes());
  return sum;
}

class GpuStage final : public Stage {
 public:
  GpuStage(const Config& config, const models::LayerList& model, const data::Source& training,
           const data::Source& validation, const StageSetup& setup, const at::TensorOptions& compute)
      : Stage(config, model, training, validation, setup, compute),
        stream_(c10::cuda::getCurrentCUDAStream()),
        forwards_late_(is_last() && setup.versions > 1 && setup.gradient_buffers == 1),
        initial_(initial_weights()),
        optimizer_(config.optimizer, layout_, config.pipeline.sync_updates, initial_, versions_.flat(0)),
        slots_(setup.slots),
        shared_pool_(at::cuda::graph_pool_handle()),
        uploads_(kUploads * 2 * tokens()),
        results_(kResults) {
    versions_.flat(0).copy_(std::exchange(initial_, Tensor()));
    for (Slot& slot : slots_) {
      slot.pool = at::cuda::graph_pool_handle();
      slot.pass = {
          .training = true,
          .loss_scale = 1.0 / static_cast<double>(config.pipeline.microbatches * config.pipeline.replicas),
          .room = &room_};
      const auto on_gpu = versions_.flat(0).options().dtype(at::kLong);
      if (is_first()) slot.pass.tokens = at::zeros(token_shape(), on_gpu);
      if (is_last()) slot.pass.targets = at::zeros(token_shape(), on_gpu);
      footprint_[Term::Inputs] += 8.0 * tokens() * (static_cast<double>(is_first()) + is_last());
    }
    one_ = at::ones({}, versions_.flat(0).options().dtype(at::kFloat));
    loss_sum_ = at::zeros({}, one_.options().dtype(at::kDouble));
    if (spanning_tie() >= 0) {
      for (Tensor& part : tie_parts_) part = at::empty_like(gradients_.of(0, spanning_tie()));
      footprint_[Term::Transfer] += 2.0 * static_cast<double>(tie_parts_[0].nbytes());
    }
    footprint_[Term::Weights] = static_cast<double>(versions_.flat(0).nbytes()) * versions_.kept();
    footprint_[Term::Gradients] = static_cast<double>(gradients_.flat(0).nbytes()) * gradients_.count();
    optimizer_.add_to(footprint_);
  }

  Tensors forward(std::int64_t microbatch, int slot, std::int64_t version, const Tensors& inputs) override;
  Tensors backward(std::int64_t microbatch, int slot, std::int64_t version,
                   const Tensors& gradients) override;
  Tensors evaluate(std::int64_t index, const Tensors& inputs) override;
  Tensor tied_gradient(std::int64_t batch) override;
  transport::Norms squared_norms(std::int64_t batch) override;
  void step(std::int64_t update, double learning_rate, std::span<const transport::Norms> norms) override;
  StepResult finish_step(std::int64_t update) override;
  int steps_ahead() const override { return 2; }
  void finish() override {
    check_cuda(cudaStreamSynchronize(stream_), "the last update");
    final_weights_ = copy_weights();
  }
  Tensor newest_weights() const override {
    return final_weights_.defined() ? final_weights_ : copy_weights();
  }
  planner::Footprint peak() const override { return footprint_; }

 private:
  static constexpr int kUploads = 4;  // microbatches whose tokens may be on their way
  static constexpr int kResults = 8;  // updates whose results may be

  struct Slot {
    at::cuda::MempoolId_t pool;
    models::Pass pass;
    Tensors inputs, gradients;         // where the graphs find them
    Tensors outputs;                   // where they leave them, if nothing else is kept of a forward
    Tensors leaves;                    // the same, as autograd sees them; while a pair is captured
    torch::autograd::edge_list roots;  // likewise
    bool counted = false;              // its memory
  };
  struct Pair {
    std::unique_ptr<at::cuda::CUDAGraph> forward, backward;
    Tensors outputs;    // of the forward, or the loss: memory that the slot's next forward uses again
    Tensors of_inputs;  // of the backward: memory that the next backward uses again
  };
  struct Result {
    optim::cuda::Control control;
    double loss;
  };

  std::int64_t tokens() const { return std::int64_t{config_.pipeline.microbatch} * config_.model.context; }
  std::vector<std::int64_t> token_shape() const {
    return {config_.pipeline.microbatch, config_.model.context};
  }
  bool is_first() const { return setup_.first_layer == 0; }
  Tensor initial_weights() const;
  Tensor copy_weights() const;
  Pair& pair_of(int slot, std::int64_t version, std::int64_t batch) {
    return pairs_[{slot, static_cast<int>(version % versions_.kept()),
                   static_cast<int>(batch % gradients_.count())}];
  }
  void upload(std::int64_t microbatch, Slot& slot);
  Tensors run_forward(Slot& slot, std::span<const Tensor> parameters);
  Tensors run_backward_of(Slot& slot, std::span<const Tensor> parameters, const Tensors& gradients);
  Tensors launch_forward(std::int64_t microbatch, int index, std::int64_t version);
  void warm_up(Slot& slot, std::span<const Tensor> parameters);
  void capture_forward(Slot& slot, Pair& pair, std::span<const Tensor> parameters);
  void capture_bare_forward(Slot& slot, Pair& pair, std::span<const Tensor> parameters);
  void count_shared(double peak);
  const Tensors& find(Slot& slot, const Tensors& gradients);
  const Tensors& bring_in(const Tensors& gradients);
  template <typename Work>
  std::unique_ptr<at::cuda::CUDAGraph> capture(at::cuda::MempoolId_t pool, Work work);

  cudaStream_t stream_;
  // The head adds to the gradient in its forward, which is too early while an update still waits for the one
  // gradient buffer there is: then the forward is launched by the backward, which follows it at once.
  bool forwards_late_;
  planner::Footprint footprint_;
  Tensor initial_;  // until it is on the device
  optim::GpuOptimizer optimizer_;
  std::vector<Slot> slots_;
  at::cuda::MempoolId_t shared_pool_;
  double shared_bytes_ = 0;  // that it needs
  std::map<std::tuple<int, int, int>, Pair> pairs_;
  Tensors gradients_in_;           // where the backwards find them, if they come to other places each time
  std::vector<Tensors> outgoing_;  // gradients on their way to the stage before
  Tensor one_, loss_sum_;
  Tensor room_;  // that all slots' graphs compute in, see models::Pass; made when warming up
  std::array<Tensor, 2> tie_parts_;
  Pinned<std::int64_t> uploads_;
  std::array<device::Ready, kUploads> uploaded_;
  Pinned<Result> results_;
  std::map<std::int64_t, device::Ready> stepped_;
  Tensor final_weights_;
  bool warm_ = false;
};

Tensor GpuStage::initial_weights() const {
  Tensor initial = at::zeros({layout_.size()}, at::kFloat);
  weights::initialize(layout_, initial, config_.train.seed);
  return initial;
}

Tensor GpuStage::copy_weights() const {
  return optimizer_.true_weights(versions_.flat(versions_.newest())).to(at::kCPU, at::kFloat);
}

void GpuStage::upload(std::int64_t microbatch, Slot& slot) {
  if (!is_first() && !is_last()) return;
  const models::Pass pass = training_pass(config_, training_, setup_.replica, microbatch);
  const auto place = static_cast<std::size_t>(microbatch % kUploads);
  if (uploaded_[place])
    check_cuda(cudaEventSynchronize(static_cast<cudaEvent_t>(uploaded_[place].get())),
               "cudaEventSynchronize");
  std::int64_t* staging = uploads_.data() + place * 2 * tokens();
  const auto send = [&](const Tensor& from, const Tensor& to, std::int64_t* through) {
    const std::size_t size = from.nbytes();
    std::memcpy(through, from.const_data_ptr<std::int64_t>(), size);
    check_cuda(cudaMemcpyAsync(to.mutable_data_ptr(), through, size, cudaMemcpyHostToDevice, stream_),
               "cudaMemcpyAsync");
  };
  if (is_first()) send(pass.tokens.contiguous(), slot.pass.tokens, staging);
  if (is_last()) send(pass.targets.contiguous(), slot.pass.targets, staging + tokens());
  uploaded_[place] = device::record_ready();
}

template <typename Work>
std::unique_ptr<at::cuda::CUDAGraph> GpuStage::capture(at::cuda::MempoolId_t pool, Work work) {
  auto graph = std::make_unique<at::cuda::CUDAGraph>();
  graph->capture_begin(pool, cudaStreamCaptureModeThreadLocal);
  work();
  graph->capture_end();
  return graph;
}

Tensors GpuStage::run_forward(Slot& slot, std::span<const Tensor> parameters) {
  slot.leaves.clear();
  for (const Tensor& input : slot.inputs) slot.leaves.push_back(input.detach().set_requires_grad(true));
  at::AutoGradMode with_graph(!setup_.recompute);
  const Tensors outputs = run_layers(parameters, slot.leaves, slot.pass);
  if (!setup_.recompute) slot.roots = roots_of(outputs);
  Tensors plain;
  for (const Tensor& output : outputs) plain.push_back(output.detach());
  return plain;
}

Tensors GpuStage::run_backward_of(Slot& slot, std::span<const Tensor> parameters, const Tensors& gradients) {
  if (setup_.recompute) {
    at::AutoGradMode with_graph(true);
    slot.roots = roots_of(run_layers(parameters, slot.leaves, slot.pass));
  }
  run_backward(slot.roots, is_last() ? Tensors{one_} : gradients);
  slot.roots.clear();
  Tensors of_inputs;
  for (Tensor& leaf : slot.leaves) {
    of_inputs.push_back(leaf.grad());
    leaf.mutable_grad().reset();
  }
  slot.leaves.clear();
  return of_inputs;
}

// Libraries make handles, load kernels and choose algorithms when they are first used, which must not happen
// in a capture.
void GpuStage::warm_up(Slot& slot, std::span<const Tensor> parameters) {
  const Tensors outputs = run_forward(slot, parameters);
  Tensors nothing;
  if (!is_last()) {
    for (const Tensor& output : outputs) nothing.push_back(at::zeros_like(output));
  }
  run_backward_of(slot, parameters, nothing);
  for (int buffer = 0; buffer < gradients_.count(); ++buffer) gradients_.flat(buffer).zero_();
  check_cuda(cudaStreamSynchronize(stream_), "warming up");
  if (room_.defined()) footprint_[Term::Working] += static_cast<double>(room_.nbytes());
  warm_ = true;
}

void GpuStage::capture_forward(Slot& slot, Pair& pair, std::span<const Tensor> parameters) {
  const Watermark memory;
  Tensors outputs;
  pair.forward = capture(slot.pool, [&] { outputs = run_forward(slot, parameters); });
  const double held = memory.live(), highest = memory.peak();
  for (const Tensor& output : outputs) pair.outputs.push_back(place_of(output));
  outputs.clear();
  // Both weight buffers' graphs use the slot's memory in turn, so that of the first is all there is.
  if (std::exchange(slot.counted, true)) return;
  footprint_[Term::Activations] += memory.live();
  footprint_[Term::Transfer] += held - memory.live();
  footprint_[Term::Working] += highest - held;
}

void GpuStage::capture_bare_forward(Slot& slot, Pair& pair, std::span<const Tensor> parameters) {
  if (slot.outputs.empty()) {
    for (const Tensor& output : run_forward(slot, parameters)) slot.outputs.push_back(at::empty_like(output));
    footprint_[Term::Transfer] += bytes(slot.outputs);
  }
  const Watermark memory;
  pair.forward = capture(shared_pool_, [&] {
    const Tensors outputs = run_forward(slot, parameters);
    for (std::size_t i = 0; i < outputs.size(); ++i) slot.outputs[i].copy_(outputs[i]);
  });
  pair.outputs = slot.outputs;
  count_shared(memory.peak());
}

void GpuStage::count_shared(double peak) {
  const double highest = std::max(shared_bytes_, peak);
  footprint_[Term::Working] += highest - std::exchange(shared_bytes_, highest);
}

Tensors GpuStage::forward(std::int64_t microbatch, int index, std::int64_t version, const Tensors& inputs) {
  Slot& slot = slots_[index];
  versions_.acquire(version);
  if (slot.inputs.empty()) {
    std::lock_guard lock(capture_mutex());
    for (const Tensor& input : inputs) slot.inputs.push_back(at::empty_like(input));
    footprint_[Term::Inputs] += bytes(slot.inputs);
  }
  upload(microbatch, slot);
  for (std::size_t i = 0; i < inputs.size(); ++i) slot.inputs[i].copy_(inputs[i], /*non_blocking=*/true);
  return forwards_late_ ? Tensors() : launch_forward(microbatch, index, version);
}

Tensors GpuStage::launch_forward(std::int64_t microbatch, int index, std::int64_t version) {
  Slot& slot = slots_[index];
  const auto parameters = versions_.parameters(version);
  Pair& pair = pair_of(index, version, batch_of(microbatch));
  if (!pair.forward) {
    std::lock_guard lock(capture_mutex());
    gradients_.attach(batch_of(microbatch), parameters);
    if (!warm_) warm_up(slot, parameters);
    if (setup_.recompute) {
      capture_bare_forward(slot, pair, parameters);
    } else {
      capture_forward(slot, pair, parameters);
    }
  }
  pair.forward->replay();
  if (!is_last()) return pair.outputs;
  loss_sum_.add_(pair.outputs.front());
  if ((microbatch + 1) % config_.pipeline.microbatches == 0) {
    double* to = &results_.data()[batch_of(microbatch) % kResults].loss;
    check_cuda(
        cudaMemcpyAsync(to, loss_sum_.const_data_ptr(), sizeof(double), cudaMemcpyDeviceToHost, stream_),
        "cudaMemcpyAsync");
    loss_sum_.zero_();
  }
  return {};
}

// A slot's gradients come to the same place every time, where its graphs read them.
const Tensors& GpuStage::find(Slot& slot, const Tensors& gradients) {
  if (slot.gradients.empty()) slot.gradients = gradients;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    TWOBW_ASSERT(gradients[i].const_data_ptr() == slot.gradients[i].const_data_ptr(),
                 "a gradient came to another place");
  }
  return slot.gradients;
}

const Tensors& GpuStage::bring_in(const Tensors& gradients) {
  if (gradients_in_.empty() && !gradients.empty()) {
    std::lock_guard lock(capture_mutex());
    for (const Tensor& gradient : gradients) gradients_in_.push_back(at::empty_like(gradient));
    footprint_[Term::Transfer] += bytes(gradients_in_);
  }
  for (std::size_t i = 0; i < gradients.size(); ++i)
    gradients_in_[i].copy_(gradients[i], /*non_blocking=*/true);
  return gradients_in_;
}

Tensors GpuStage::backward(std::int64_t microbatch, int index, std::int64_t version,
                           const Tensors& gradients) {
  if (forwards_late_) launch_forward(microbatch, index, version);
  Slot& slot = slots_[index];
  const auto parameters = versions_.parameters(version);
  const Tensors& found = setup_.gradients_stay ? find(slot, gradients) : bring_in(gradients);

  Pair& pair = pair_of(index, version, batch_of(microbatch));
  if (!pair.backward) {
    std::lock_guard lock(capture_mutex());
    gradients_.attach(batch_of(microbatch), parameters);
    const Watermark memory;
    pair.backward = capture(shared_pool_, [&] {
      for (const Tensor& gradient : run_backward_of(slot, parameters, found))
        pair.of_inputs.push_back(place_of(gradient));
    });
    count_shared(memory.peak());
  }
  pair.backward->replay();
  versions_.release(version);
  if (is_first()) return {};

  // The stage before has used a gradient when it begins the forward that, as many microbatches later as it
  // has in flight, lets this stage come to the same place again.
  if (outgoing_.empty()) {
    std::lock_guard lock(capture_mutex());
    outgoing_.resize(setup_.slots_before);
    for (Tensors& place : outgoing_) {
      for (const Tensor& gradient : pair.of_inputs) place.push_back(at::empty_like(gradient));
      footprint_[Term::Transfer] += bytes(place);
    }
  }
  Tensors& place = outgoing_[microbatch % outgoing_.size()];
  for (std::size_t i = 0; i < place.size(); ++i) place[i].copy_(pair.of_inputs[i], /*non_blocking=*/true);
  return place;
}

// Rare, so it is not captured; the queue is empty when it returns, so that the memory of what passes between
// stages can be used again.
Tensors GpuStage::evaluate(std::int64_t index, const Tensors& inputs) {
  at::NoGradGuard no_grad;
  models::Pass pass = validation_pass(config_, validation_, index);
  const auto on_gpu = versions_.flat(versions_.newest()).options();
  pass.tokens = pass.tokens.to(on_gpu.dtype(at::kLong));
  pass.targets = pass.targets.to(on_gpu.dtype(at::kLong));
  const Tensor& newest = versions_.flat(versions_.newest());
  const Tensor weights = optimizer_.computes_with_true_weights()
                             ? newest
                             : optimizer_.true_weights(newest).to(newest.scalar_type());
  Tensors outputs = run_layers(weights::parameter_views(layout_, weights), inputs, pass);
  check_cuda(cudaStreamSynchronize(stream_), "evaluation");
  return outputs;
}

Tensor GpuStage::tied_gradient(std::int64_t batch) {
  const Tensor& part = tie_parts_[batch % 2];
  part.copy_(gradients_.of(batch, spanning_tie()), /*non_blocking=*/true);
  return part;
}

transport::Norms GpuStage::squared_norms(std::int64_t batch) {
  // Which may be beside the stage's own: see transport/replica_sum.h.
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
  const Tensor norms = optimizer_.squared_norms(batch, gradients_.flat(batch), stream);
  return {.on_gpu = norms, .ready = device::record_ready()};
}

void GpuStage::step(std::int64_t update, double learning_rate, std::span<const transport::Norms> norms) {
  const Tensor source = versions_.flat(versions_.newest());
  const Tensor target = versions_.begin_write();
  Tensors of_stages;
  for (const transport::Norms& of_stage : norms) of_stages.push_back(of_stage.on_gpu);
  optimizer_.apply(update, learning_rate, of_stages, gradients_.flat(update), source, target, stream_);
  versions_.publish();
  check_cuda(cudaMemcpyAsync(&results_.data()[update % kResults].control, optimizer_.control(),
                             sizeof(optim::cuda::Control), cudaMemcpyDeviceToHost, stream_),
             "cudaMemcpyAsync");
  stepped_[update] = device::record_ready();
}

StepResult GpuStage::finish_step(std::int64_t update) {
  const auto ready = stepped_.extract(update);
  check_cuda(cudaEventSynchronize(static_cast<cudaEvent_t>(ready.mapped().get())), "an update");
  const Result& result = results_.data()[update % kResults];
  StepResult step{.gradient_norm = std::sqrt(result.control.squared_norm),
                  .skipped = result.control.skip != 0};
  if (is_last()) step.loss = result.loss;
  return step;
}

}  // namespace

std::unique_ptr<Stage> make_gpu_stage(const Config& config, const models::LayerList& model,
                                      const data::Source& training, const data::Source& validation,
                                      const StageSetup& setup, const at::TensorOptions& compute) {
  return std::make_unique<GpuStage>(config, model, training, validation, setup, compute);
}

}  // namespace twobw::runtime
