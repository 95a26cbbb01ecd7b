// Costs of a model that nobody has measured: what every layer computes, moves and keeps, counted from its
// shapes, and how long a device of known figures takes for it.
#pragma once

#include <string>
#include <vector>

#include "base/config.h"
#include "planner/cluster.h"
#include "planner/costs.h"

namespace twobw::planner {

// What a layer does with one sequence, whatever the device.
struct LayerWork {
  std::string kind;
  double parameters = 0;  // elements, tied copies included
  double tied = 0;        // elements of them that are shared with another layer

  // The forward. Matrix products and the rest (norms, activations, sums, gathers) run one after the other.
  double matrix_flops = 0;
  double matrix_bytes = 0;   // activations that the products read and write
  double element_bytes = 0;  // bytes that the rest reads and writes

  // Bytes, as LayerCost has them. `stash` is everything that the layer allocates in its forward and that
  // lives until its backward, its outputs included where the next layer keeps them.
  double stash = 0;
  double kept = 0;
  double output = 0;
  double working = 0;
};

// The layers of models/gpt.cc, in order, for elements of so many bytes.
std::vector<LayerWork> describe_gpt(const ModelConfig& model, double bytes_per_element);

// By model.family. Throws InputError for a family that cannot be described.
std::vector<LayerWork> describe_model(const ModelConfig& model, double bytes_per_element);

std::vector<std::string> kinds_of(const std::vector<LayerWork>& layers);
std::vector<LayerShape> shapes_of(const std::vector<LayerWork>& layers);

// Bytes of the tokens and targets of one sequence.
double token_bytes(int context);

// Peak rate of a device in this precision; throws InputError that names those it has.
double peak_rate(const DeviceKind& device, const std::string& precision);

// A roofline. With b sequences a microbatch, P the layer's parameters, E bytes an element:
//
//   forward   max(flops / (peak * efficiency), (b * matrix_bytes + E P) / bandwidth)
//             + b * element_bytes / bandwidth + overhead
//   backward  twice the products (of the gradient with the weights, and with the inputs), which read the
//   weights
//             once more and read and write their gradient; half as many bytes again for the rest, which
//             reads the incoming gradient besides; twice the overhead
//   step      all state of a parameter read and written once, at the memory's bandwidth
//
// Throws InputError where the device's rates or its memory bandwidth are not known.
CostTable modelled_costs(const std::vector<LayerWork>& layers, const DeviceKind& device,
                         const std::string& precision, const StateBytes& state, int context,
                         const std::vector<int>& microbatches);

}  // namespace twobw::planner
