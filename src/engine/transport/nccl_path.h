// A link's way from one process to another by a channel of its own.
#pragma once

#include <memory>

#include "engine/transport/gpu_paths.h"
#include "engine/transport/nccl_channel.h"

namespace twobw::transport {

// `peer`: the other end's rank in the channel.
std::unique_ptr<GpuPath> nccl_path(std::shared_ptr<NcclChannel> channel, int peer);

}  // namespace twobw::transport
