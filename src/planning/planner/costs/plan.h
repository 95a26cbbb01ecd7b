// A plan: everything that `twobw train` needs to know about how the work is cut up and where it runs.
// planning/planner/search/configuration.h makes a Problem of a configuration, and a configuration of a Plan.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/schedule/spec.h"
#include "planning/planner/costs/layer_costs.h"
#include "planning/planner/costs/memory_model.h"
#include "planning/planner/hardware/cluster.h"

namespace twobw::planner {

// Input of the search.
struct Problem {
  Cluster cluster;
  std::vector<LayerShape> layers;
  std::vector<CostTable> costs;  // by kind of device
  StateBytes state;
  // State under schedules that never delay an update, if different: they need no correction for a delay.
  std::optional<StateBytes> synchronous_state;
  int batch = 1;              // B: sequences an update, at most
  int context = 1;            // tokens a sequence, for tokens/s
  double margin = 0.1;        // fraction of a device's memory kept free
  PartialShape fixed;         // choices that are not the planner's
  bool predict_well = false;  // 2bw only where schedule::predicts_well
  // Least number of nodes for the replicas of a stage (search/places.h); 0: the planner chooses.
  int spread = 0;
  // Whether stages wait for each other on links that they share; otherwise each has them to itself.
  bool links = true;
};

// One stage of a plan: its layers and the devices of its replicas.
struct StagePlan {
  int first_layer = 0, last_layer = 0;  // [first, last)
  bool recompute = false;
  int kind = 0;              // of device
  std::vector<int> nodes;    // of each replica
  std::vector<int> devices;  // of each replica: index within its node
  // Forecast:
  double forward = 0, backward = 0;  // seconds a microbatch; backward includes recomputation
  double step = 0;                   // seconds an update
  double reduce = 0;                 // seconds of the all-reduce over replicas, and of the tie
  double send = 0;                   // seconds of one transfer to the next stage
  double busy = 0;                   // of the update's time
  Footprint memory;
  double capacity = 0;  // bytes of the device
};

struct Plan {
  PipelineShape shape;  // after evaluate() consistent with `stages`, see shape_of()
  std::vector<StagePlan> stages;
  // Forecast by the closed-form model:
  double update_seconds = 0;
  double sequences_per_s = 0;
  double tokens_per_s = 0;
  double utilisation = 0;  // mean of the stages' busy
  bool modelled = false;   // from device figures, not from measurements
  // By the simulator, where it was asked; 0: not.
  double simulated_tokens_per_s = 0;

  // By the better of the two that is known.
  double best_known_tokens_per_s() const {
    return simulated_tokens_per_s > 0 ? simulated_tokens_per_s : tokens_per_s;
  }
};

// The plan's shape with the number of stages, split and recomputation of its stages.
PipelineShape shape_of(const Plan& plan);

}  // namespace twobw::planner
