// Simulates the instruction lists of schedule/ on a modeled system: compute takes time, transfers take
// latency and bandwidth and share links, and everything happens as early as possible.
#pragma once

#include <vector>

#include "core/schedule/instruction.h"
#include "core/schedule/spec.h"

namespace twobw::simulator {

// A link for which transfers queue, or one with a single user.
struct Channel {
  double latency = 0;
  double bandwidth = 0;  // bytes a second; infinity: free
};

struct StageTimes {
  double forward = 0, backward = 0;  // seconds a microbatch; recomputation belongs to the backward
  double step = 0;                   // seconds an update, on the compute thread
  double predict = 0;                // seconds a prediction, on the compute thread
  double evaluate = 0;               // seconds an evaluation
  double working_overhead = 0;       // seconds of compute for every send and every receive
  // The all-reduce of one update over the replicas: seconds from the last backward to its end without
  // contention, in addition to the bytes that it sends over a shared channel.
  double reduce = 0;
  double reduce_bytes = 0;
  int reduce_channel = -1;
};

// Between stage r and r+1. Channels are indices into System::channels; several boundaries may name the
// same one, and then share it. -1: free and immediate.
struct Boundary {
  double activation_bytes = 0, gradient_bytes = 0;
  int forward_channel = -1, backward_channel = -1;
};

struct System {
  std::vector<StageTimes> stages;
  std::vector<Boundary> boundaries;  // one fewer
  std::vector<Channel> channels;
  // Bytes of a tied embedding's gradient per update: from the first stage to the last, and back.
  double tie_bytes = 0;
  int tie_forward_channel = -1, tie_backward_channel = -1;
  // Seconds of the exchange of the gradient norm at each update.
  double agree = 0;
};

// A stage's time in the steady state by cause, in seconds per update.
struct StageUse {
  double forward = 0, backward = 0;
  double step = 0;                                // predictions included
  double handing_over = 0;                        // its sends and receives
  double wait_activation = 0, wait_gradient = 0;  // for a neighbor or the transfer from it
  double wait_reduce = 0;                         // for gradients or norms of other stages and replicas
  double wait_other = 0;                          // for the batch to begin
  double utilisation = 0;                         // fraction not spent waiting
};

struct Result {
  double update_seconds = 0;  // in the steady state
  double total_seconds = 0;   // of the whole run
  std::vector<StageUse> stages;
  std::vector<schedule::Event> events;  // only with keep_events
};

// Simulates the whole run. The steady state is measured on a separate run that is long enough.
Result simulate(const schedule::Spec& spec, const System& system, bool keep_events = false);

// Result::update_seconds alone.
double steady_update_seconds(const schedule::Spec& spec, const System& system);

// Seconds of an all-reduce of `bytes`: a ring over the devices, or hierarchical over nodes: a reduction
// inside every node, a ring between nodes, and the way back.
double ring_all_reduce(double bytes, int devices, const Channel& channel);
double hierarchical_all_reduce(double bytes, int nodes, int devices_per_node, const Channel& inside,
                               const Channel& between);

}  // namespace twobw::simulator
