// What one stage gives to a checkpoint: copies in host memory, made at its own place in the schedule.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "engine/optim/state.h"
#include "engine/weights/layout.h"
#include "engine/weights/range.h"

namespace twobw::runtime {

struct Snapshot {
  std::int64_t update = 0;  // the cut: after so many updates
  int stage = 0;
  weights::Layout layout;  // of the stage
  weights::Range part;     // of its flat weights, that the buffers hold; all, but where replicas share them
  // Flat, on the CPU: "weights", the true ones; what the optimizer remembers, by its names; what the next
  // batch reads besides: "predicted", or "before1", "before2" for one or two updates earlier; "compute" where
  // what is computed with is neither the true weights nor predicted.
  std::vector<std::pair<std::string, at::Tensor>> buffers;
  optim::Counters counters;
  // Waits until the copies are made, from any thread; none: they are. Before that the rest is not to be read.
  std::function<void(Snapshot&)> await;
};

// Of whole stages, in their order, from those of all parts, once they are made.
std::vector<Snapshot> of_whole_stages(std::vector<Snapshot> parts);

}  // namespace twobw::runtime
