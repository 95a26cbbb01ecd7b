// Stubs for builds without NCCL, in which no GPUs are in several processes.
#include "core/base/error.h"
#include "engine/transport/gpu_paths.h"

namespace twobw::transport {

int nccl_version() {
  return 0;
}

std::unique_ptr<GpuPaths> nccl_paths(std::chrono::duration<double>, OnFailure) {
  fail_run("this program was built without NCCL");
}

}  // namespace twobw::transport
