// What one stage gives to a checkpoint: copies in host memory, made at its own place in the schedule.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "optim/state.h"
#include "weights/layout.h"

namespace twobw::runtime {

struct Snapshot {
  std::int64_t update = 0;  // the cut: after so many updates
  int stage = 0;
  weights::Layout layout;  // of the buffers
  // Flat, on the CPU: "weights", the true ones; what the optimizer remembers, by its names; what the next
  // batch reads besides: "predicted", or "before1", "before2" for one or two updates earlier; "compute" where
  // what is computed with is neither the true weights nor predicted.
  std::vector<std::pair<std::string, at::Tensor>> buffers;
  optim::Counters counters;
  // Waits until the copies are made, from any thread; none: they are. Before that the rest is not to be read.
  std::function<void(Snapshot&)> await;
};

}  // namespace twobw::runtime
