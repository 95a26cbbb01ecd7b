// The two halves of a stage: StageState, the same on every device, and StageCompute, which runs microbatches
// and updates on a CPU (cpu_compute.cc) or a GPU (gpu/compute.cc).
//
// On a GPU every call queues work and returns; its results are ready when the queue has reached them
// (engine/device/clock.h).
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/base/config.h"
#include "core/base/memory_terms.h"
#include "core/telemetry/event.h"
#include "engine/data/tokens.h"
#include "engine/models/model.h"
#include "engine/optim/optimizer.h"
#include "engine/optim/state.h"
#include "engine/runtime/microbatches.h"
#include "engine/runtime/snapshot.h"
#include "engine/transport/group.h"
#include "engine/weights/double_buffer.h"
#include "engine/weights/layout.h"

namespace twobw::runtime {

using models::Tensors;

struct StageSetup {
  int replica = 0, stage = 0;
  int first_layer = 0, last_layer = 0;  // [first, last) of the model
  bool recompute = false;
  int slots = 1;                       // microbatches in flight
  int slots_before = 1;                // the same of the previous stage, which receives gradients
  bool fixed_gradient_address = true;  // GPU: gradients for a slot always arrive at the same address
  int versions = 1;                    // weight versions kept
  int gradient_buffers = 1;
  bool predicts = false;                    // runs on predicted weights; the optimizer keeps the true ones
  bool switches_to_true_weights = false;    // in the later microbatches of a batch
  bool sums_partials = false;               // predicts from gradients summed over several replicas
  double predict_ratio = 1;                 // m / k_r
  bool saves = false;                       // makes snapshots for checkpoints
  std::vector<weights::Range> shards = {};  // weights that each replica updates; empty: all of them
  // All-gather of a flat buffer of which each replica has written its shard.
  std::function<void(const at::Tensor& whole)> gather = {};
  DataPosition position = {};
};

struct StepResult : optim::Applied {
  std::optional<double> loss;                     // the replica's share of the batch's; on the last stage
  std::optional<telemetry::PredictionMiss> miss;  // of a watched step
};
// Waits for the result of a step. To be called once, in the order of the updates.
using PendingStep = std::function<StepResult()>;

// Weights, gradients and data of a stage. Used by the stage's thread.
struct StageState {
  StageState(const Config& config, const models::Model& model, const data::Source& training,
             const data::Source& validation, const StageSetup& setup, const at::TensorOptions& compute);

  bool is_last() const { return setup.last_layer == model.size(); }
  bool is_on_gpu() const { return gradients.flat(0).is_cuda(); }
  bool is_sharded() const { return !setup.shards.empty(); }
  bool scales_loss() const { return is_last() && config.train.precision == "fp16"; }
  std::int64_t batch_of(std::int64_t microbatch) const { return microbatch / config.pipeline.microbatches; }

  // The part of the weights that this replica updates; nullopt: all of them.
  std::optional<weights::Range> shard() const {
    return is_sharded() ? std::optional(setup.shards[setup.replica]) : std::nullopt;
  }
  at::Tensor own(const at::Tensor& flat) const { return is_sharded() ? shard()->of(flat) : flat; }
  const at::Tensor& newest() const { return versions.flat(versions.newest()); }
  // The newest true weights of its own shard, in single precision.
  at::Tensor true_weights() const { return optimizer.master.defined() ? optimizer.master : own(newest()); }
  // Flat W(0), in single precision on the CPU.
  at::Tensor initial_weights() const;
  // Space for all weights in single precision, while no gradient is in use.
  at::Tensor weights_in_gradients() const { return gradients.flat(0).narrow(0, 0, layout.size()); }
  Tensors run_layers(std::span<const at::Tensor> parameters, Tensors x,
                     const models::MicrobatchContext& pass) const;

  const Config& config;
  const models::Model& model;
  StageSetup setup;
  MicrobatchSource microbatches;  // of the fields that its layers read
  weights::Layout layout;
  weights::Versions versions;
  weights::Gradients gradients;
  at::Tensor partial;  // sum of a batch's first gradients, to predict from; undefined: the gradient itself
  optim::State optimizer;  // handles of the optimizer's own tensors
  at::Tensor room;         // scratch memory of models::MicrobatchContext, on a GPU
  double data_waited = 0;  // seconds that forwards have waited for their data
  Footprint footprint;     // bytes on a GPU; a CPU's are in its memory pool
};

// One step of the optimizer over flat buffers.
struct StepWork {
  std::int64_t update = 0;
  double learning_rate = 0;
  std::span<const transport::Norms> norms;  // of all stages
  at::Tensor source;                        // the weights computed with
  at::Tensor target;                        // their next version; undefined: only the true weights change
  const optim::Prediction* next = nullptr;  // to make in the same pass
  optim::PredictionMiss* miss = nullptr;    // to finish right after the step
};

class StageCompute {
 public:
  virtual ~StageCompute() = default;

  // Runs a microbatch; returns the tensors for the next stage (none on the last) or for the previous one.
  virtual Tensors forward(std::int64_t microbatch, int slot, std::int64_t generation,
                          const Tensors& inputs) = 0;
  virtual Tensors backward(std::int64_t microbatch, int slot, std::int64_t generation,
                           const Tensors& gradients) = 0;
  // Squared gradient norms of this stage's parameters. Thread-safe.
  virtual transport::Norms squared_norms(std::int64_t batch) = 0;
  virtual PendingStep step(const StepWork& work) = 0;
  virtual void predict(const optim::Prediction& prediction) = 0;
  // A copy in host memory; on a GPU complete when the snapshot is.
  virtual at::Tensor host_copy(const at::Tensor& tensor) = 0;
  // Adds the optimizer's counters to a snapshot whose tensors have been copied.
  virtual void finish_snapshot(Snapshot& snapshot) = 0;
  virtual void restore(const optim::Counters& counters) = 0;
};

// They set state.optimizer and refer to `state`. The GPU is the calling thread's
// (engine/device/gpu_thread.h).
std::unique_ptr<StageCompute> make_cpu_compute(StageState& state);
std::unique_ptr<StageCompute> make_gpu_compute(StageState& state);

}  // namespace twobw::runtime
