// Roofline model of layer costs without measurements: from a device's figures, and the computation and
// traffic of every layer by architecture/.
#pragma once

#include <string>
#include <vector>

#include "planning/architecture/layer.h"
#include "planning/planner/costs/layer_costs.h"
#include "planning/planner/hardware/cluster.h"

namespace twobw::planner {

// Bytes of a tensor that has a number for each token of one sequence.
double token_bytes(int context);

// Peak rate of a device in this precision; throws InputError that names those it has.
double peak_rate(const DeviceKind& device, const std::string& precision);

// A roofline. With the layer's work for a microbatch, its P parameters and E bytes an element:
//
//   forward   max(flops / (peak * efficiency), (matrix_bytes + E P) / bandwidth)
//             + element_bytes / bandwidth + overhead
//   backward  twice the products (of the gradient with the weights, and with the inputs), which read the
//   weights
//             once more and read and write their gradient; half as many bytes again for the rest, which
//             reads the incoming gradient, too; twice the overhead
//   step      all state of a parameter read and written once, at the memory's bandwidth
//
// Throws InputError where the device's rates or its memory bandwidth are not known, or a layer's work is not
// described.
CostTable modelled_costs(const architecture::Model& model, const DeviceKind& device,
                         const std::string& precision, const StateBytes& state, int context,
                         const std::vector<int>& microbatches);

}  // namespace twobw::planner
