// What one stage gives to a checkpoint: copies in host memory, made at its own place in the schedule.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/optim/state.h"
#include "engine/runtime/microbatches.h"
#include "engine/weights/layout.h"

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

using ByName = std::map<std::string, at::Tensor>;

struct Restored {
  std::int64_t update = 0;                // after so many updates
  std::int64_t sequences = -1;            // that they were made of; -1: of batches as they are now
  std::map<std::string, ByName> buffers;  // by the names of Snapshot::buffers
  optim::Counters counters;

  // 0 and 0 stand for batches that are as they always were.
  DataPosition position() const {
    return sequences < 0 ? DataPosition() : DataPosition{.update = update, .sequences = sequences};
  }
  bool has(const std::string& buffer) const { return buffers.contains(buffer); }
  // Flat, in the layout of a stage. A tied copy that was not saved by itself is what it is tied to.
  at::Tensor flat(const std::string& buffer, const weights::Layout& layout) const;
};

}  // namespace twobw::runtime
