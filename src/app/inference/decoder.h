// Incremental decoding over pipeline stages, with a KV cache: the last stage leads.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "app/inference/stages.h"
#include "engine/models/model.h"

namespace twobw::inference {

// The next step of all stages.
struct Order {
  enum class Kind : std::int64_t {
    Begin,  // prefill of a row's KV cache
    Step,   // one more token for each of the first rows
    Whole,  // a whole sequence without the cache
    End,
  };
  Kind kind = Kind::End;
  std::int64_t row = 0;                   // Begin only
  std::vector<std::int64_t> tokens = {};  // of the sequence; Step: one per row
  std::vector<std::int64_t> seen = {};    // Step: tokens before it in each row

  at::Tensor packed() const;
  static Order unpacked(const at::Tensor& numbers);
};

// Decode steps on a GPU as CUDA graphs, one per number of rows, captured at its first use on the current
// stream. One token per row, at position `seen` of its row; the next step overwrites the outputs.
using StepGraphs = std::function<models::Tensors(
    std::span<const std::int64_t> tokens, std::span<const std::int64_t> seen, const models::Tensors& inputs)>;
// Queues the layers of a step.
using StepWork = std::function<models::Tensors(const models::Step& step, const models::Tensors& inputs)>;
// Asserts in a build without CUDA.
StepGraphs make_step_graphs(StepWork work, const at::TensorOptions& compute);

// A stage's share of the model, with its KV cache.
class Decoder {
 public:
  // A cache of `rows` rows of at most `places` tokens. Stage and model must outlive it.
  Decoder(const Stage& stage, const models::Model& model, std::int64_t rows, std::int64_t places);

  // Runs the last stage's orders until end(). Not for the last stage.
  void follow();

  // For the last stage: orders all stages and returns logits, in float on the CPU. After a row's first
  // tokens, at most `places`: [vocab].
  at::Tensor begin(std::int64_t row, std::vector<std::int64_t> tokens);
  // After one more token for each row from 0 on: [rows, vocab].
  at::Tensor step(std::vector<std::int64_t> tokens, std::vector<std::int64_t> seen);
  // After a whole sequence, without the cache: [vocab].
  at::Tensor whole(std::vector<std::int64_t> tokens);
  void end() { announce({.kind = Order::Kind::End}); }  // once

  bool can_step() const { return !model_.steps.empty(); }

 private:
  at::Tensor run(const Order& order);
  at::Tensor order(const Order& order);
  models::Tensors run_layers(const Order& order, const models::Tensors& inputs);
  models::Tensors run_whole(const Order& order, const models::Tensors& inputs) const;
  models::Tensors run_step(const models::Step& step, const models::Tensors& inputs, std::int64_t row) const;
  void announce(const Order& order) const;

  const Stage& stage_;
  const models::Model& model_;
  std::vector<models::KeyValues> caches_;  // by layer
  StepGraphs graphs_;                      // on a GPU
  std::int64_t orders_ = 0;                // run so far
};

}  // namespace twobw::inference
