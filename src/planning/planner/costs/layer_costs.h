// Input of the planner: times and sizes of every layer, by kind of device and microbatch size. `twobw
// profile` measures them, or roofline.h models them from a device's figures; the report names the source.
#pragma once

#include <string>
#include <vector>

#include "planning/architecture/layer.h"

namespace twobw::planner {

// One layer, for one microbatch of b sequences on one kind of device.
struct LayerCost {
  double forward = 0;      // seconds
  double backward = 0;     // seconds
  double saved_bytes = 0;  // bytes kept from the forward to the backward, without the layer's inputs
  double kept = 0;         // saved bytes that are its output, kept by the next layer on the same stage
  double output = 0;       // bytes handed to the next layer, and of the gradient that comes back
  double working = 0;      // temporary bytes of the forward or the backward, on top of saved_bytes - kept
};

// The part of a layer that is independent of device and microbatch size.
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
  double tokens = 0;  // bytes of a tensor with one number per token of a microbatch

  // Bytes of the given tensors of a microbatch.
  double bytes_of(architecture::BatchFields fields) const;
};

// Measured or modelled costs of one kind of device.
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
  // Transferred tensors have fixed addresses, because GPUs replay graphs: one activation per microbatch in
  // flight, one gradient per microbatch in flight on the stage before, two gradients of a tie. On a CPU they
  // are allocated as needed.
  bool fixed_places = false;

  // Pure fp32 with AdamW: {4, 0, 4, 8}; bf16: {2, 4, 4, 8}.
};

}  // namespace twobw::planner
