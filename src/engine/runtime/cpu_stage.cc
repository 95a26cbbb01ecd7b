#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/edge.h>

#include <map>

#include "core/base/error.h"
#include "engine/device/memory.h"
#include "engine/optim/optimizer.h"
#include "engine/runtime/backward.h"
#include "engine/runtime/feed.h"
#include "engine/runtime/stage.h"

namespace twobw::runtime {
namespace {

using at::Tensor;
using device::PurposeScope;

Tensors detached(const Tensors& tensors) {
  Tensors result;
  for (const Tensor& tensor : tensors) result.push_back(tensor.detach());
  return result;
}

class CpuStage final : public Stage {
 public:
  CpuStage(const Config& config, const models::Model& model, const data::Source& training,
           const data::Source& validation, const StageSetup& setup, const at::TensorOptions& compute,
           device::MemoryPool& pool)
      : Stage(config, model, training, validation, setup, compute),
        optimizer_(config.optimizer, layout_, first_weights(), setup.predicts,
                   versions_.flat(0).scalar_type(), shard()),
        in_flight_(setup.slots),
        pool_(pool),
        feed_(config, passes_, setup.replica) {
    if (is_sharded()) gradients_.flat(0).zero_();  // see first_weights()
    optimizer_.begin_scaling(loss_scaling_of(config.train));
  }

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
  int steps_ahead() const override { return 0; }
  void finish() override;
  double data_waited() const override { return feed_.waited(); }
  Tensor newest_weights() const override { return last_.defined() ? last_ : true_weights(); }
  Footprint peak() const override { return pool_.peak(); }

 protected:
  Tensor host_copy(const Tensor& tensor) override;
  const optim::State& optimizer_state() const override { return optimizer_.state(); }
  Tensor device_weights() const override { return true_weights(); }
  void finish_snapshot(Snapshot& snapshot) override { snapshot.counters = optimizer_.counters(); }
  void restore_counters(const optim::Counters& counters) override { optimizer_.restore(counters); }

 private:
  struct InFlight {
    bool taken = false;
    models::Pass pass;
    Tensors inputs;                    // leaves that require a gradient
    torch::autograd::edge_list roots;  // where the backward starts; none under recomputation
  };
  Tensor first_weights() const;
  Tensor true_weights() const { return optimizer_.true_weights(versions_.flat(versions_.newest())); }

  optim::Optimizer optimizer_;
  std::vector<InFlight> in_flight_;
  device::MemoryPool& pool_;
  std::map<std::int64_t, double> losses_;  // of batches still to be applied, summed over their microbatches
  StepResult last_step_;
  Tensor last_;  // true weights, of replicas that shared them
  Feed feed_;
};

// W(0) for the optimizer, which keeps it, or its part, where what is computed with is rounded from it. Of all
// weights in single precision a replica that keeps a part has none but among the gradients, before the first
// and after the last of them.
Tensor CpuStage::first_weights() const {
  const Tensor& first = versions_.flat(0);
  if (first.scalar_type() == at::kFloat) return first;
  const PurposeScope purpose(Term::Master);
  const Tensor initial = is_sharded() ? room_in_gradients() : initial_weights();
  if (is_sharded()) weights::initialize(layout_, initial, config_);
  first.copy_(initial);
  return initial;
}

// Where they are gathered there is no further use of gradients.
void CpuStage::finish() {
  if (is_sharded()) last_ = gather_weights(room_in_gradients());
}

Tensors CpuStage::forward(std::int64_t microbatch, int slot, std::int64_t generation, const Tensors& inputs) {
  InFlight& flight = in_flight_[slot];
  TWOBW_ASSERT(!flight.taken, "slot {} is taken when microbatch {} comes", slot, microbatch);
  flight.taken = true;
  const auto parameters = versions_.acquire(generation);
  {
    const PurposeScope purpose(Term::Inputs);
    flight.pass = feed_.take(microbatch);
  }
  if (scales_loss())
    flight.pass.loss_scale = at::full({1}, scale_of(optimizer_.scaling(), batch_of(microbatch)), at::kDouble);
  for (const Tensor& input : inputs) flight.inputs.push_back(input.detach().set_requires_grad(true));
  PurposeScope purpose(Term::Working);
  at::AutoGradMode with_graph(!setup_.recompute);
  const Tensors outputs = run_layers(parameters, flight.inputs, flight.pass);
  if (!setup_.recompute) flight.roots = roots_of(outputs);
  purpose.keep_as(Term::Activations);
  if (!is_last()) return detached(outputs);
  losses_[batch_of(microbatch)] += outputs.front().item<double>();
  return {};
}

Tensors CpuStage::backward(std::int64_t microbatch, int slot, std::int64_t generation,
                           const Tensors& gradients) {
  InFlight flight = std::exchange(in_flight_[slot], {});
  const auto parameters = versions_.parameters(generation);
  gradients_.attach(batch_of(microbatch), parameters);
  if (setup_.recompute) flight.roots = roots_of(run_layers(parameters, flight.inputs, flight.pass));
  run_backward(flight.roots, gradients);
  versions_.release(generation);
  Tensors of_inputs;
  for (const Tensor& input : flight.inputs) of_inputs.push_back(input.grad());
  return of_inputs;
}

Tensors CpuStage::evaluate(std::int64_t index, const Tensors& inputs) {
  at::NoGradGuard no_grad;
  return run_layers(weights::parameter_views(layout_, weights_to_evaluate()), inputs,
                    passes_.validation(index));
}

// A copy: the buffer itself is cleared by the step, which does not wait for the other end.
Tensor CpuStage::tied_gradient(std::int64_t batch, int tie) {
  const PurposeScope purpose(Term::Transfer);
  return gradients_.of(batch, tied_parameter(tie)).clone();
}

transport::Norms CpuStage::squared_norms(std::int64_t batch) {
  const weights::Range all{.count = layout_.size()};
  return {.values = optim::squared_norms(layout_, gradients_.flat(batch), shard().value_or(all))};
}

void CpuStage::step(std::int64_t update, double learning_rate, std::span<const transport::Norms> norms,
                    bool writes, const NextBatch* next) {
  std::vector<double> squares;
  for (const transport::Norms& of_stage : norms)
    squares.insert(squares.end(), of_stage.values.begin(), of_stage.values.end());
  const Tensor source = versions_.flat(versions_.newest());
  const Tensor target = writes ? versions_.begin_write() : Tensor();
  const optim::Prediction prediction = next ? prediction_for(*next) : optim::Prediction();
  begin_watch(update, true_weights());
  const optim::Applied applied = optimizer_.step(learning_rate, squares, gradients_.flat(update), source,
                                                 target, next ? &prediction : nullptr);
  end_watch(update, true_weights());
  last_step_ = {
      .gradient_norm = applied.gradient_norm, .skipped = applied.skipped, .loss_scale = applied.loss_scale};
  if (!writes && next == nullptr) return;
  complete(next ? prediction.target : target);
  versions_.publish();
}

Tensor CpuStage::host_copy(const Tensor& tensor) {
  const PurposeScope purpose(Term::Transfer);
  return tensor.detach().clone();
}

void CpuStage::predict(const NextBatch& next) {
  const optim::Prediction prediction = prediction_for(next);
  optimizer_.predict(prediction);
  complete(prediction.target);
  versions_.publish();
}

StepResult CpuStage::finish_step(std::int64_t update) {
  StepResult result = last_step_;
  if (const auto loss = losses_.extract(update)) result.loss = loss.mapped();
  result.miss = take_miss(update);
  return result;
}

}  // namespace

std::unique_ptr<Stage> make_cpu_stage(const Config& config, const models::Model& model,
                                      const data::Source& training, const data::Source& validation,
                                      const StageSetup& setup, const at::TensorOptions& compute,
                                      device::MemoryPool& pool) {
  return std::make_unique<CpuStage>(config, model, training, validation, setup, compute, pool);
}

}  // namespace twobw::runtime
