// A model that goes on with sequences, token by token, over the stages of a pipeline: the last stage says
// what is computed next, and the others follow.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "app/inference/stages.h"
#include "app/inference/step_graphs.h"
#include "engine/models/model.h"

namespace twobw::inference {

// What all stages do next.
struct Order {
  enum class Kind : std::int64_t {
    Begin,  // the first tokens of a row, whose keys and values are kept
    Step,   // one more token of each of the first rows
    Whole,  // a sequence by itself, of which nothing is kept
    End,
  };
  Kind kind = Kind::End;
  std::int64_t row = 0;                   // of Begin
  std::vector<std::int64_t> tokens = {};  // of a sequence; of Step one a row
  std::vector<std::int64_t> seen = {};    // of Step: tokens before it, of each row

  at::Tensor packed() const;
  static Order unpacked(const at::Tensor& numbers);
};

// A stage's part of the model, with the keys and values of its layers.
class DecodingStage {
 public:
  // For so many rows of at most so many places. Both outlive it.
  DecodingStage(const Stage& stage, const models::Model& model, std::int64_t rows, std::int64_t places);

  // Takes over from the stage before and hands on to the next. The last gives logits [rows, vocab], in float
  // on the CPU, of the last token of each; the others nothing.
  at::Tensor run(const Order& order);
  // Does what the last stage says until it says that this is the end. Not for the last.
  void follow();
  // Of the last stage: to those before it, before it runs the order itself.
  void tell(const Order& order);

  bool can_step() const { return !model_.steps.empty(); }

 private:
  models::Tensors run_layers(const Order& order, const models::Tensors& inputs);
  models::Tensors run_whole(const Order& order, const models::Tensors& inputs) const;
  models::Tensors step(const models::Step& step, const models::Tensors& inputs, std::int64_t row) const;

  const Stage& stage_;
  const models::Model& model_;
  std::vector<models::KeyValues> caches_;  // of its layers
  std::unique_ptr<StepGraphs> graphs_;     // on a GPU
  std::int64_t orders_ = 0;                // so far
  std::int64_t told_ = 0;
};

// The last stage, which all of them compute for.
class Decoder {
 public:
  explicit Decoder(DecodingStage& last) : last_(last) {}

  // The logits [vocab] after a row's first tokens, at most as many as there are places.
  at::Tensor begin(std::int64_t row, std::vector<std::int64_t> tokens);
  // Those [rows, vocab] after one more token of the rows from 0 on.
  at::Tensor step(std::vector<std::int64_t> tokens, std::vector<std::int64_t> seen);
  // Those [vocab] after a sequence, without what is kept.
  at::Tensor whole(std::vector<std::int64_t> tokens);
  void end();  // once

  bool can_step() const { return last_.can_step(); }

 private:
  at::Tensor order(Order order);

  DecodingStage& last_;
};

}  // namespace twobw::inference
