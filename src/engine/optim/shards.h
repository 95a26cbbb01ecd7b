// How the optimizer's state of a stage is divided among its replicas (pipeline.shard_state): a run of the
// flat weights each, in the order of the replicas and of about the same size. It is cut between the pieces
// that norms are made of, so that these are whole, or between parameters where an update needs all of one.
#pragma once

#include <vector>

#include "core/base/config.h"
#include "engine/weights/layout.h"
#include "engine/weights/range.h"

namespace twobw::optim {

// By replica; together they are all of it. One may have nothing.
std::vector<weights::Range> shards_of(const OptimizerConfig& config, const weights::Layout& layout,
                                      int replicas);

}  // namespace twobw::optim
