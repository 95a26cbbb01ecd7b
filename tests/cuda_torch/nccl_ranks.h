// Threads as ranks that NCCL joins, on as many GPUs as there are.
#pragma once

#include <fmt/format.h>

#include <cstdlib>
#include <string>

#include "engine/device/gpu_thread.h"
#include "engine/transport/gpu_paths.h"

namespace twobw::transport {

// Why `ranks` ranks cannot run here; empty if they can.
inline std::string ranks_missing(int ranks) {
  constexpr int kSharesGpus = 23000;
  const int gpus = device::gpu_count();
  if (gpus == 0) return "no GPU here";
  if (gpus >= ranks) return {};
  const char* shares = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  if (nccl_version() >= kSharesGpus && shares != nullptr && std::string(shares) == "1") return {};
  return fmt::format("{} ranks on {} GPUs need NCCL 2.30 and NCCL_MULTI_RANK_GPU_ENABLE=1; this is {}", ranks,
                     gpus, nccl_version());
}

inline int gpu_of(int rank) {
  return rank % device::gpu_count();
}

}  // namespace twobw::transport
