// A stage of the pipeline: its layers, weight versions, gradients and optimizer. A worker calls it from one
// thread and decides the order.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/config.h"
#include "core/base/memory_terms.h"
#include "engine/data/tokens.h"
#include "engine/device/memory.h"
#include "engine/models/model.h"
#include "engine/runtime/snapshot.h"
#include "engine/runtime/stage_compute.h"
#include "engine/transport/group.h"
#include "engine/weights/layout.h"

namespace twobw::runtime {

// The batch to predict weights for.
struct NextBatch {
  std::int64_t batch = 0;
  double learning_rate = 0;  // of the update before it
};

class Stage {
 public:
  // `compute`: number format and device, on a GPU the calling thread's; `pool` counts a CPU's allocations.
  Stage(const Config& config, const models::Model& model, const data::Source& training,
        const data::Source& validation, const StageSetup& setup, const at::TensorOptions& compute,
        const device::MemoryPool& pool);
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  // `generation` of the weights: core/schedule/spec.h. The first stage has no inputs. Returns the tensors for
  // the next stage; none on the last, which keeps the loss.
  Tensors forward(std::int64_t microbatch, int slot, std::int64_t generation, const Tensors& inputs) {
    return compute_->forward(microbatch, slot, generation, inputs);
  }
  // The last stage has no gradients. Returns those for the previous stage; none on the first.
  Tensors backward(std::int64_t microbatch, int slot, std::int64_t generation, const Tensors& gradients) {
    return compute_->backward(microbatch, slot, generation, gradients);
  }
  // Forward of one validation microbatch on the newest true weights; the last stage returns the loss. Between
  // begin and end, which are collective among replicas that shard the optimizer's state.
  Tensors evaluate(std::int64_t index, const Tensors& inputs);
  std::int64_t validation_microbatches() const { return state_.microbatches.validation_microbatches(); }
  void begin_evaluation();
  void end_evaluation() { evaluated_ = at::Tensor(); }

  // The flat gradient of batch j: backwards accumulate into it, the step applies it.
  const at::Tensor& gradient(std::int64_t batch) const { return state_.gradients.flat(batch); }
  // Adds up the gradients of ties within the stage.
  void sum_local_ties(std::int64_t batch);
  // A tie that spans stages, by its index in layout().ties(): a copy of this stage's gradient, and the sum
  // with the other end's.
  bool holds_primary(int tie) const { return layout().ties()[tie].primary >= 0; }
  at::Tensor tied_gradient(std::int64_t batch, int tie);
  void add_tied_gradient(std::int64_t batch, int tie, const at::Tensor& other);
  // Offset and count of the primaries of ties in a flat gradient.
  std::vector<std::pair<std::int64_t, std::int64_t>> tied_ranges() const;

  // Squared gradient norms of this stage's parameters. Thread-safe.
  transport::Norms squared_norms(std::int64_t batch) { return compute_->squared_norms(batch); }
  // `norms`: of all stages. `writes`: also writes the true weights to the next buffer of the layers. `next`:
  // also predicts for that batch, in the same pass. The result is awaited at most steps_ahead() steps later.
  PendingStep step(std::int64_t update, double learning_rate, std::span<const transport::Norms> norms,
                   bool writes, const NextBatch* next = nullptr);
  int steps_ahead() const { return state_.is_on_gpu() ? 2 : 0; }
  // Arms the next step to measure the error of the latest prediction. Has no effect if the step overwrites
  // the predicted weights.
  void watch() { watches_ = state_.versions.kept() > 1; }
  // Writes the weights of a batch from the gradients of the previous batch that are complete.
  void predict(const NextBatch& next);
  // A copy of batch j's gradient so far, which replicas sum up to predict from.
  const at::Tensor& copy_partial(std::int64_t batch);
  // Blocks until all queued work is done. Collective among replicas that shard the optimizer's state.
  void finish();

  // Seconds that forwards have waited for the data of their microbatches, in total.
  double data_waited() const { return state_.data_waited; }

  // Copies the weights that the next batch reads and the coming step does not write (core/schedule/spec.h).
  // After the step, snapshot() adds the true weights and the optimizer's state, both of the own shard.
  void save_compute(std::span<const std::int64_t> older_generations, bool predicted);
  Snapshot snapshot(std::int64_t update);
  // Resumes, before anything else: the first generation, and older ones that are still read.
  void restore(const Restored& from, std::int64_t first_generation,
               std::span<const std::int64_t> older_generations, bool predicted);
  // Replaces the step that made the restored weights.
  void restore_weights(bool writes);

  // Flat true weights, in single precision on the CPU. With a sharded state: after finish().
  at::Tensor newest_weights() const;
  const weights::Layout& layout() const { return state_.layout; }
  // Checksums of the newest true weights. Collective among replicas that shard the optimizer's state.
  std::vector<std::uint64_t> layer_checksums();
  int peak_versions() const { return state_.versions.peak_live(); }
  Footprint peak() const { return state_.is_on_gpu() ? state_.footprint : pool_.peak(); }

 private:
  // The newest true weights in the number format of the layers.
  at::Tensor weights_to_evaluate();
  // All of the newest true weights: the buffer computed with, or gathered into `room`.
  at::Tensor gather_weights(const at::Tensor& room);
  void complete(const at::Tensor& flat) const;
  void keep_tied_gradients();
  int tied_parameter(int tie) const;
  void sum_partial_ties();
  optim::Prediction prediction_for(const NextBatch& next);
  at::Tensor host_copy(const at::Tensor& tensor);
  void reserve_snapshot();

  StageState state_;
  const device::MemoryPool& pool_;
  std::unique_ptr<StageCompute> compute_;
  std::vector<std::vector<at::Tensor>> tied_gradients_;     // on a GPU: two copies of each that spans stages
  std::vector<std::pair<std::string, at::Tensor>> copied_;  // by save_compute(), for the next snapshot
  std::optional<Snapshot> reserved_;                        // pinned memory for the first snapshot
  at::Tensor restored_;                                     // until restore_weights(), on the CPU
  at::Tensor evaluated_;                                    // gathered weights, during an evaluation
  at::Tensor final_weights_;                                // after finish()
  bool watches_ = false;
};

}  // namespace twobw::runtime
