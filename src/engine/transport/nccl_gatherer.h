// Weights of which the replicas of a stage in several processes have made a part each, by a channel of
// theirs.
#pragma once

#include <memory>
#include <vector>

#include "engine/transport/gpu_paths.h"
#include "engine/transport/nccl_channel.h"

namespace twobw::transport {

// `ranks`: of each replica, rising; those of `own` are here. `parts`: by replica.
std::unique_ptr<GpuGatherer> nccl_gatherer(std::shared_ptr<NcclChannel> channel, std::vector<int> ranks,
                                           int own, std::vector<weights::Range> parts);

}  // namespace twobw::transport
