// What the planner knows of a model: every layer's times and sizes, by kind of device and microbatch size.
// Measured by `twobw profile`, or modelled from a device's figures (planning/planner/costs/roofline.h); the
// planner does not care which, but says so.
#pragma once

#include <string>
#include <vector>

#include "planning/architecture/layer.h"

namespace twobw::planner {

// One layer, for one microbatch of b sequences on one kind of device.
struct LayerCost {
  double forward = 0;      // seconds
  double backward = 0;     // seconds
  double saved_bytes = 0;  // bytes kept from the forward to the backward, besides the layer's inputs
  double kept = 0;         // saved bytes that are its output, kept by the next layer on the same stage
  double output = 0;       // bytes handed to the next layer, and of the gradient that comes back
  double working =
      0;  // bytes in use for a while in the forward or the backward, on top of saved_bytes - kept
};

// One layer, whatever the device and the microbatch.
struct LayerShape {
  std::string kind;
  double parameters = 0;  // elements, tied copies included
  double tied = 0;        // elements of them that are shared with another layer (embedding and head)
  architecture::BatchFields takes = {};
};

std::vector<LayerShape> shapes_of(const architecture::Model& model);

// All layers at one microbatch size.
struct CostColumn {
  int microbatch = 1;
  std::vector<LayerCost> layers;
  double tokens = 0;  // bytes of a tensor that has a number for each token of a microbatch

  // Bytes of those tensors of a microbatch.
  double bytes_of(architecture::BatchFields fields) const;
};

// All that was measured or modelled for one kind of device.
struct CostTable {
  std::vector<CostColumn> columns;   // by growing microbatch size
  double step_per_parameter = 0;     // seconds of the optimizer's step, for one parameter
  double predict_per_parameter = 0;  // and of a prediction
  bool modelled = false;             // from a device's figures, not measured
  bool fixed_places = false;         // as in StateBytes
};

// Bytes of training state a parameter, by purpose.
struct StateBytes {
  double weights = 4;    // of one version
  double master = 0;     // fp32 weights beside those computed with
  double gradients = 4;  // of one buffer
  double optimizer = 8;  // moments
  // On a CPU what travels is there as long as it is needed. On a GPU work is queued as graphs, which find
  // it in fixed places: every microbatch in flight has one for what goes to the next stage, gradients that
  // go back have as many as the stage before has in flight, and the gradient of a tie has two.
  bool fixed_places = false;

  // Pure fp32 with AdamW: {4, 0, 4, 8}; bf16: {2, 4, 4, 8}.
};

}  // namespace twobw::planner
