// The state of a stage in a checkpoint: copies in host memory, made at the stage's own point in the schedule,
// and the contents of a checkpoint to resume from.
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
  std::int64_t update = 0;  // number of updates made
  int stage = 0;
  weights::Layout layout;  // of the stage
  weights::Range part;     // range of its flat weights in the buffers: a shard, or all
  // Flat, on the CPU: the true "weights"; the optimizer's state by its names; other weights that the next
  // batch reads: "predicted", or "before1", "before2" of one or two updates earlier.
  std::vector<std::pair<std::string, at::Tensor>> buffers;
  optim::Counters counters;
  // Blocks until the copies are complete; thread-safe. Buffers and counters may be read only afterwards.
  // Empty if the copies are complete already.
  std::function<void(Snapshot&)> await;
};

// Joins the complete snapshots of all shards to whole stages, in order.
std::vector<Snapshot> of_whole_stages(std::vector<Snapshot> parts);

using ByName = std::map<std::string, at::Tensor>;

// The contents of a checkpoint by the names of parameters, so that they fit any split.
struct Restored {
  std::int64_t update = 0;                // number of updates made
  std::int64_t sequences = -1;            // that they used; -1: batches of the current size
  std::map<std::string, ByName> buffers;  // by the names of Snapshot::buffers
  optim::Counters counters;

  // 0 and 0: the batch size has not changed.
  DataPosition position() const {
    return sequences < 0 ? DataPosition() : DataPosition{.update = update, .sequences = sequences};
  }
  bool has(const std::string& buffer) const { return buffers.contains(buffer); }
  // Flat, in the layout of a stage. A tied copy without its own tensor takes its primary's.
  at::Tensor flat(const std::string& buffer, const weights::Layout& layout) const;
};

}  // namespace twobw::runtime
