// Runs the instruction lists of schedule/ as discrete events on a modelled system: compute takes time,
// transfers take latency and bandwidth and share links, everything happens as early as it can.
#pragma once

#include <vector>

#include "core/schedule/event.h"
#include "core/schedule/spec.h"

namespace twobw::simulator {

// A place where transfers queue for bandwidth, or one that each has to itself.
struct Channel {
  double latency = 0;
  double bandwidth = 0;  // bytes a second; infinity: free
};

struct StageTimes {
  double forward = 0, backward = 0;  // seconds a microbatch; recomputation belongs to the backward
  double step = 0;                   // seconds an update, on the compute thread
  double predict = 0;                // seconds a prediction, likewise
  double evaluate = 0;               // seconds an evaluation
  double working_overhead = 0;       // seconds of compute that every send and every receive costs
  // The all-reduce of one update over the replicas: seconds from the last backward to its end, on its own,
  // besides the bytes that it sends over a channel that others use too.
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
  // The gradient of a tied embedding, an update: from the first stage to the last, and back.
  double tie_bytes = 0;
  int tie_forward_channel = -1, tie_backward_channel = -1;
  // Numbers that every stage contributes to and awaits at each update (the gradient norm): seconds.
  double agree = 0;
};

// Where a stage's time goes in the steady state, in seconds an update.
struct StageUse {
  double forward = 0, backward = 0;
  double step = 0;                                // predictions included
  double handing_over = 0;                        // its sends and receives
  double wait_activation = 0, wait_gradient = 0;  // for a neighbour or the transfer from it
  double wait_reduce = 0;                         // for gradients or norms of others
  double wait_other = 0;                          // for the batch to begin
  double utilisation = 0;                         // not waiting, of the whole
};

struct Result {
  double update_seconds = 0;  // in the steady state
  double total_seconds = 0;   // of the whole run
  std::vector<StageUse> stages;
  std::vector<schedule::Event> events;  // only when asked for
};

// `spec.updates` is as long as the caller likes; the steady state is taken from runs made long enough.
Result simulate(const schedule::Spec& spec, const System& system, bool keep_events = false);

// The seconds of an update alone.
double steady_update_seconds(const schedule::Spec& spec, const System& system);

// Seconds of an all-reduce of `bytes` over n devices: a ring, and over nodes of several devices each a
// reduction inside every node, a ring between nodes, and the way back.
double ring_all_reduce(double bytes, int devices, const Channel& channel);
double hierarchical_all_reduce(double bytes, int nodes, int devices_per_node, const Channel& inside,
                               const Channel& between);

}  // namespace twobw::simulator
