// What processes send to rank 0 to be written there, over the wire `state`: snapshots of stages, and after
// the run the weights of workers and their events. Each says what it is, then its tensors come.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/telemetry/event.h"
#include "engine/optim/state.h"
#include "engine/transport/wire.h"
#include "engine/weights/layout.h"

namespace twobw::train {

struct Parcel {
  enum class Kind : std::uint8_t { Snapshot, Weights, Events, Last } kind = Kind::Last;
  int replica = 0, stage = 0;  // of a snapshot, or of weights
  std::int64_t update = 0;     // of a snapshot
  weights::Range part = {};    // likewise
  optim::Counters counters;    // likewise
  // Flat, on the CPU.
  std::vector<std::pair<std::string, at::Tensor>> buffers;
};

// Waits until it is received. Throws like Wire.
void send_parcel(transport::Wire& wire, int to, const Parcel& parcel);
// Waits for the next.
Parcel receive_parcel(transport::Wire& wire, int from);

Parcel events_parcel(const std::vector<telemetry::Event>& events);
std::vector<telemetry::Event> events_of(const Parcel& parcel);

}  // namespace twobw::train
