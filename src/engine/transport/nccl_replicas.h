// All-reduce and all-gather over the replicas of a stage that several processes have on GPUs, on one channel
// each.
//
// Every process adds a part of the buffers, as in remote_sum.h: it receives that part from all replicas, adds
// in the order of the replicas, as a sum within one process does, and sends the sum to the others; a range
// with an owner stays with the owner.
#pragma once

#include <memory>
#include <vector>

#include "engine/transport/gpu_paths.h"
#include "engine/transport/nccl_channel.h"

namespace twobw::transport {

// `ranks`: of each replica, ascending; those of `own` are here. `ranges` begin on multiples of 16 bytes.
std::unique_ptr<GpuAdder> nccl_adder(std::shared_ptr<NcclChannel> channel, std::vector<int> ranks, int own,
                                     SumRanges ranges = {});

// `parts`: by replica.
std::unique_ptr<GpuGatherer> nccl_gatherer(std::shared_ptr<NcclChannel> channel, std::vector<int> ranks,
                                           int own, std::vector<weights::Range> parts);

}  // namespace twobw::transport
