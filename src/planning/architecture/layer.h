// A model as values: what each of its layers is, holds, computes and keeps. The planner reads it, weights/
// lays it out in memory, models/ attaches the forwards. Needs no LibTorch.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "planning/architecture/batch.h"

namespace twobw::architecture {

struct Parameter {
  std::string name;  // unique in the model
  std::vector<std::int64_t> shape;
  double init_std = 0.0;  // normal around init_mean
  double init_mean = 0.0;
  bool decay = true;      // weight decay applies: not to biases and norms
  std::string tied_to{};  // shares its weights with that parameter; gradients are summed
  // Maps between hidden activations, one after the other, by their rows, as fused queries, keys and values
  // are three; none for embeddings, heads and vectors. For optimizers that treat matrices as such.
  std::vector<std::int64_t> matrices{};

  std::int64_t count() const;  // elements
  // Both ends of a tie have one, that of the weights they share.
  const std::string& group_name() const { return tied_to.empty() ? name : tied_to; }
};

// The size of a microbatch.
struct Extent {
  double sequences = 1;
  double context = 1;  // tokens in a sequence
  double element = 4;  // bytes of an activation's element
};

inline constexpr double kStatisticBytes =
    4;                                    // of an element, in any precision: norms and softmax keep floats
inline constexpr double kIndexBytes = 8;  // of a place in a sequence

// What a layer does in the forward of one microbatch, whatever the device.
struct Work {
  // Matrix products and the rest (norms, activations, sums, gathers) run one after the other.
  double matrix_flops = 0;
  double matrix_bytes = 0;   // activations that the products read and write
  double element_bytes = 0;  // bytes that the rest reads and writes

  // Bytes. `saved_bytes` is everything that the layer allocates in its forward and that lives until its
  // backward, its outputs included where the next layer keeps them; those are `kept`. `output` is what it
  // hands on, and `working` what is in use for a while in the forward or the backward, on top of saved_bytes
  // - kept.
  double saved_bytes = 0;
  double kept = 0;
  double output = 0;
  double working = 0;

  // So many times as much.
  Work times(double factor) const;
};

struct Layer {
  std::string kind;  // layers of one kind and shape take the same time: "attention_in", "mlp_up", "head"
  std::vector<Parameter> parameters = {};
  BatchFields takes = {};  // all that its forward reads of a batch: a stage gets nothing else
  // Its forward adds to the gradients of its parameters already, as a head does that never has all its logits
  // at once. Only the last layer's may.
  bool gradients_in_forward = false;
  // Empty: not described. Such a model is planned from measured times alone.
  std::function<Work(const Extent& extent)> work = {};
};

// In the order in which they run. The first has no inputs but what it takes from the batch; the last gives
// the loss: the sum over the labels of the microbatch, times the batch's loss scale. So the losses of an
// update's microbatches add up to the mean over its labels, however many each has. A loss may be two such
// sums, each with a scale of its own: the update's loss is then the sum of two means.
using Model = std::vector<Layer>;

double parameter_count(const Layer& layer);        // tied copies included
std::int64_t parameter_count(const Model& model);  // tied weights once

// The kind of every layer, in order.
std::vector<std::string> kinds_of(const Model& model);

// What layers [first, last) take from a batch.
BatchFields taken_by(const Model& model, int first, int last);

// "42 layers: embedding, 8 x (attention_in, attention_out, mlp_up, mlp_activation, mlp_down), head".
std::string describe(const Model& model);

}  // namespace twobw::architecture
