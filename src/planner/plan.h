// A plan: everything that `twobw train` needs to know about how the work is cut up and where it runs.
// planner/configuration.h makes a Problem of a configuration, and a configuration of a Plan.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/cluster.h"
#include "planner/costs.h"
#include "planner/memory.h"
#include "schedule/spec.h"

namespace twobw::planner {

// What is asked.
struct Problem {
  Cluster cluster;
  std::vector<LayerShape> layers;
  std::vector<CostTable> costs;  // by kind of device
  StateBytes state;
  // Of schedules that never delay an update, where that differs: they need no correction for a delay.
  std::optional<StateBytes> synchronous_state;
  int batch = 1;        // B: sequences an update, at most
  int context = 1;      // tokens a sequence, for tokens/s
  double margin = 0.1;  // fraction of a device's memory kept free
  // What the user has fixed; nothing: the planner chooses.
  std::optional<schedule::Kind> schedule;
  std::optional<int> stages, replicas, microbatch, microbatches, extra;
  std::optional<bool> recompute;
  std::optional<bool> second_gradient;  // matters under 2bw alone
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
  schedule::Kind schedule = schedule::Kind::TwoBW;
  int replicas = 1;             // w
  int microbatch = 1;           // b
  int microbatches = 1;         // m
  int extra = 0;                // e
  bool second_gradient = true;  // under 2bw: of stages that wait while the next batch accumulates
  std::vector<StagePlan> stages;
  // Forecast by the closed-form model:
  double update_seconds = 0;
  double sequences_per_s = 0;
  double tokens_per_s = 0;
  double utilisation = 0;  // mean of the stages' busy
  bool modelled = false;   // from device figures, not from measurements
  // By the simulator, where it was asked; 0: not.
  double simulated_tokens_per_s = 0;
};

}  // namespace twobw::planner
