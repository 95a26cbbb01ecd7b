// Sums over the replicas of a stage that several processes have on GPUs, by a channel of theirs.
//
// Every process answers for a part of the buffers, as in remote_sum.h: it receives that part of all replicas,
// adds them in the order of the replicas, as a sum within one process does, and sends the sum to the others;
// what has an owner here stays with it.
#pragma once

#include <memory>
#include <vector>

#include "engine/transport/gpu_paths.h"
#include "engine/transport/nccl_channel.h"

namespace twobw::transport {

// `ranks`: of each replica, rising; those of `own` are here. `ranges`: which begin on multiples of 16 bytes.
std::unique_ptr<GpuAdder> nccl_adder(std::shared_ptr<NcclChannel> channel, std::vector<int> ranks, int own,
                                     SumRanges ranges = {});

}  // namespace twobw::transport
