// The StageLoad of any run of layers, from prefix sums.
#pragma once

#include <algorithm>
#include <bit>
#include <vector>

#include "planning/planner/costs/layer_costs.h"
#include "planning/planner/costs/memory_model.h"

namespace twobw::planner {

// Prefix sums for one kind of device and one microbatch size.
class LayerSums {
 public:
  LayerSums(const std::vector<LayerShape>& shapes, const CostColumn& column);

  // Load of layers [first, last). The model's first layer has no input, its last no output.
  StageLoad of(int first, int last) const {
    const Sums& from = before_[first];
    const Sums& to = before_[last];
    StageLoad load;
    load.forward = to.forward - from.forward;
    load.backward = to.backward - from.backward;
    // The next stage keeps the last layer's output.
    load.saved_bytes = to.saved_bytes - from.saved_bytes - kept_[last - 1];
    load.working = highest_above(first, last) - to.saved_bytes + kept_[last - 1];
    load.input = first > 0 ? output_[first - 1] : 0;
    load.output = last < layers() ? output_[last - 1] : 0;
    // Counts a tensor twice if two layers of the stage read it.
    load.tokens = to.tokens - from.tokens;
    // Both ends of a tie in one stage share the weights; each still has a gradient of its own.
    const int ends = to.ends - from.ends;
    load.gradient_parameters = to.parameters - from.parameters;
    load.parameters = load.gradient_parameters - (ends > 1 ? (to.tied - from.tied) - largest_tie_ : 0);
    load.tied = ends > 0 && ends < before_.back().ends ? largest_tie_ : 0;
    return load;
  }
  // Forward and backward of the same layers, without the other sums.
  double compute(int first, int last) const { return compute_[last] - compute_[first]; }
  // Backward alone.
  double backward(int first, int last) const { return before_[last].backward - before_[first].backward; }
  // The longest forward and the longest backward of a layer.
  const LayerCost& slowest() const { return slowest_; }
  // Bytes of the layer's output.
  double output(int layer) const { return output_[layer]; }
  int layers() const { return static_cast<int>(output_.size()); }

 private:
  double highest_above(int first, int last) const {
    const unsigned span = std::bit_floor(static_cast<unsigned>(last - first));
    const std::vector<double>& highest = highest_[std::countr_zero(span)];
    return std::max(highest[first], highest[last - static_cast<int>(span)]);
  }

  // Sums over the layers before each layer. Ties have few ends, so their sizes are summed too.
  struct Sums {
    double forward = 0, backward = 0, saved_bytes = 0, parameters = 0, tied = 0, tokens = 0;
    int ends = 0;  // layers that share weights with another
  };
  std::vector<Sums> before_;
  std::vector<double> compute_;  // before each
  std::vector<double> output_, kept_;
  LayerCost slowest_;
  double largest_tie_ = 0;
  // While a layer works, the stage holds the saved bytes of the layers up to it, and the layer's
  // working space. highest_[k][i] is the most of that among the 2^k layers from i on, with all saved bytes
  // counted from the model's first layer.
  std::vector<std::vector<double>> highest_;
};

// Sums for one microbatch size, by kind of device; null if a kind has no costs of that size.
using LayerSumsByKind = std::vector<const LayerSums*>;

}  // namespace twobw::planner
