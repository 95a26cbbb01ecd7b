// The arithmetic of one stage: its layers, weight versions, gradients and optimizer. Knows nothing of
// threads, links or order; the worker tells it what to do. Used by one thread.
//
// On a GPU the calls only queue work: what they give is there once the queue has come to it
// (engine/device/stream_event.h), and what a step came to is asked for some steps later.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/base/config.h"
#include "core/base/gpu_name.h"
#include "core/telemetry/event.h"
#include "engine/data/tokens.h"
#include "engine/device/memory.h"
#include "engine/models/model.h"
#include "engine/optim/optimizer.h"
#include "engine/optim/prediction_miss.h"
#include "engine/runtime/pass.h"
#include "engine/runtime/restored.h"
#include "engine/runtime/snapshot.h"
#include "engine/transport/group.h"
#include "engine/weights/double_buffer.h"
#include "engine/weights/gradients.h"
#include "engine/weights/layout.h"

namespace twobw::runtime {

using models::Tensors;

struct StageSetup {
  int replica = 0;
  int first_layer = 0, last_layer = 0;  // [first, last) of the model
  bool recompute = false;
  int slots = 1;               // microbatches in flight
  int slots_before = 1;        // on the stage before, which gradients go to
  bool gradients_stay = true;  // what comes for a slot is where the last was that came for it; of GPUs
  int versions = 1;            // weight versions kept
  int gradient_buffers = 1;
  bool predicts = false;     // computes on predictions; the true weights are the optimizer's
  bool settles = false;      // and on true weights, in the later microbatches of a batch
  bool sums_partly = false;  // of what several replicas have
  double predict_ratio = 1;  // m / k_r
  bool saves = false;        // gives snapshots to checkpoints
  // Of a stage whose replicas share the optimizer's state (engine/optim/shards.h): what each updates, and how
  // a flat buffer is completed of which this one has made its own part. None: it updates all.
  std::vector<weights::Range> shards = {};
  std::function<void(const at::Tensor& whole)> gather = {};
  DataPosition position = {};
};

// What a step came to.
struct StepResult {
  double gradient_norm = 0;
  bool skipped = false;                           // the gradient is not finite
  double loss_scale = 1;                          // of the batch
  std::optional<double> loss;                     // the replica's part of the batch's; on the last stage
  std::optional<telemetry::PredictionMiss> miss;  // where it was asked for
};

// The batch to predict weights for.
struct NextBatch {
  std::int64_t batch = 0;
  double learning_rate = 0;  // of the update before it
};

class Stage {
 public:
  Stage(const Config& config, const models::Model& model, const data::Source& training,
        const data::Source& validation, const StageSetup& setup, const at::TensorOptions& compute);
  virtual ~Stage() = default;

  // `generation`: of the weights, see core/schedule/spec.h. No inputs on the first stage. Gives what goes to
  // the next stage; nothing on the last, which keeps the loss.
  virtual Tensors forward(std::int64_t microbatch, int slot, std::int64_t generation,
                          const Tensors& inputs) = 0;
  // No gradients on the last stage. Gives what goes to the previous stage, if anything.
  virtual Tensors backward(std::int64_t microbatch, int slot, std::int64_t generation,
                           const Tensors& gradients) = 0;
  // Forward of one validation microbatch on the newest true weights. The last stage gives the loss. Between
  // begin and end, where all replicas come that share the weights.
  virtual Tensors evaluate(std::int64_t index, const Tensors& inputs) = 0;
  std::int64_t validation_microbatches() const { return passes_.validation_microbatches(); }
  void begin_evaluation();
  void end_evaluation() { evaluated_ = at::Tensor(); }

  // Flat, of batch j: where the backwards accumulate, and what the step applies.
  const at::Tensor& gradient(std::int64_t batch) const { return gradients_.flat(batch); }
  // Adds up the gradients of ties within the stage.
  void sum_local_ties(std::int64_t batch);
  // Of a tie that spans stages, by its index in layout().ties(): this stage's part of batch j's gradient, and
  // the other end's, to be added.
  bool holds_primary(int tie) const { return layout_.ties()[tie].primary >= 0; }
  virtual at::Tensor tied_gradient(std::int64_t batch, int tie) = 0;
  void add_tied_gradient(std::int64_t batch, int tie, const at::Tensor& other);
  // Offset and count of what ties change in a flat gradient where they are summed.
  std::vector<std::pair<std::int64_t, std::int64_t>> tied_ranges() const;

  // Of what it updates. From any thread.
  virtual transport::Norms squared_norms(std::int64_t batch) = 0;
  // `norms`: of all stages. `writes`: what is computed with, too, besides the optimizer's true weights.
  virtual void step(std::int64_t update, double learning_rate, std::span<const transport::Norms> norms,
                    bool writes, const NextBatch* next = nullptr) = 0;
  // The step to come is to measure how far its weights were missed by the newest prediction, which was of
  // them. Not where the step, or a prediction made with it, takes the prediction's place.
  void watch() { watches_ = versions_.kept() > 1; }
  // Writes the weights that a batch computes on from the gradients of the batch before that are in; with
  // `next` in the same pass as the step.
  virtual void predict(const NextBatch& next) = 0;
  // A copy of batch j's gradient as it is now, for the replicas to sum up and predict from.
  const at::Tensor& copy_partial(std::int64_t batch);
  // Waits for it where need be. Once an update, in their order, at most steps_ahead() behind step().
  virtual StepResult finish_step(std::int64_t update) = 0;
  virtual int steps_ahead() const = 0;
  virtual void finish() {}  // the end; waits for all that was queued

  // Seconds, since the beginning, that forwards have waited for the data of their microbatches.
  virtual double data_waited() const = 0;

  // Copies what the next batch reads besides the weights that the coming step makes (core/schedule/spec.h);
  // and with it, after the step, those and the optimizer's state. Of the part that it updates.
  void save_compute(std::span<const std::int64_t> older_generations, bool predicted);
  Snapshot snapshot(std::int64_t update);
  // Of a resumed run, before anything else: where generations begin, and those that are read before they are
  // written.
  void restore(const Restored& from, std::int64_t first_generation,
               std::span<const std::int64_t> older_generations, bool predicted);
  // In place of the step that made the weights restored.
  void restore_weights(bool writes);

  // Flat true weights of the newest version, in single precision on the CPU, and where the parameters lie in
  // them. Of replicas that share them: after finish().
  virtual at::Tensor newest_weights() const = 0;
  const weights::Layout& layout() const { return layout_; }
  // Of the same; replicas that share them come to it together.
  std::vector<std::uint64_t> layer_checksums();
  int peak_versions() const { return versions_.peak_live(); }
  virtual Footprint peak() const = 0;  // bytes by purpose

 protected:
  Tensors run_layers(std::span<const at::Tensor> parameters, Tensors x, const models::Pass& pass) const;
  // Flat W(0), in single precision on the CPU.
  at::Tensor initial_weights() const;
  // The newest true weights in the format that is computed in.
  at::Tensor weights_to_evaluate();
  // Whether this replica updates a part of the weights; of a flat buffer that part, or all of it; the rest of
  // one from the other replicas.
  bool is_sharded() const { return !setup_.shards.empty(); }
  at::Tensor own(const at::Tensor& flat) const {
    return is_sharded() ? setup_.shards[setup_.replica].of(flat) : flat;
  }
  void complete(const at::Tensor& flat) const {
    if (is_sharded()) setup_.gather(flat);
  }
  std::optional<weights::Range> shard() const {
    return is_sharded() ? std::optional(setup_.shards[setup_.replica]) : std::nullopt;
  }
  // For all weights in single precision, before the first and after the last of the gradients.
  at::Tensor room_in_gradients() const { return gradients_.flat(0).narrow(0, 0, layout_.size()); }
  // The newest true weights, all of them: what is computed with, or gathered into `room`.
  at::Tensor gather_weights(const at::Tensor& room);
  // The end of it that this stage has, as a parameter of its layout.
  int tied_parameter(int tie) const;
  // What to predict from, and where to; the caller publishes it.
  optim::Prediction prediction_for(const NextBatch& next);
  // Around a step, of what watch() asked for; nothing is left of it in the next.
  void begin_watch(std::int64_t update, const at::Tensor& true_weights);
  void end_watch(std::int64_t update, const at::Tensor& true_weights);
  std::optional<telemetry::PredictionMiss> take_miss(std::int64_t update);
  // Of what a snapshot takes: a copy in host memory, perhaps still on its way; the optimizer's.
  virtual at::Tensor host_copy(const at::Tensor& tensor) = 0;
  virtual const optim::State& optimizer_state() const = 0;
  virtual at::Tensor device_weights() const = 0;  // the newest true ones that it updates, in single precision
  virtual void finish_snapshot(Snapshot& snapshot) = 0;  // counters, and when it is all there
  virtual void restore_counters(const optim::Counters& counters) = 0;
  // Whether the loss of a batch has a scale (core/base/loss_scaling.h).
  bool scales_loss() const { return is_last() && config_.train.precision == "fp16"; }
  bool is_last() const { return setup_.last_layer == model_.size(); }
  std::int64_t batch_of(std::int64_t microbatch) const { return microbatch / config_.pipeline.microbatches; }

  const Config& config_;
  const models::Model& model_;
  StageSetup setup_;
  Passes passes_;  // of what its layers take
  weights::Layout layout_;
  weights::Versions versions_;
  weights::Gradients gradients_;
  at::Tensor partial_;  // see copy_partial

 private:
  // Names of what a batch reads besides, oldest first.
  static std::string older_name(std::size_t index, std::size_t count, bool predicted);

  std::vector<std::pair<std::string, at::Tensor>> copied_;  // for the snapshot to come
  at::Tensor restored_;                                     // until restore_weights, on the CPU
  at::Tensor evaluated_;                                    // where it was gathered to evaluate
  bool watches_ = false;
  std::map<std::int64_t, optim::PredictionMiss> misses_;  // by update
};

// `compute`: the number format; `pool` counts what the stage allocates.
std::unique_ptr<Stage> make_cpu_stage(const Config& config, const models::Model& model,
                                      const data::Source& training, const data::Source& validation,
                                      const StageSetup& setup, const at::TensorOptions& compute,
                                      device::MemoryPool& pool);
// On the calling thread's GPU (engine/device/gpu_thread.h), which gives the options to compute with.
std::unique_ptr<Stage> make_gpu_stage(const Config& config, const models::Model& model,
                                      const data::Source& training, const data::Source& validation,
                                      const StageSetup& setup, const at::TensorOptions& compute);

}  // namespace twobw::runtime
