// What a resumed run starts from: the contents of a checkpoint by the names of parameters, so that they fit
// any stages.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <string>

#include "engine/optim/state.h"
#include "engine/runtime/pass.h"
#include "engine/weights/layout.h"

namespace twobw::runtime {

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
