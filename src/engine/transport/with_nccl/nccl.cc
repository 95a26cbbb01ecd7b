#include "engine/transport/nccl.h"

#include "core/base/error.h"

namespace twobw::transport {

void check_nccl(ncclResult_t result, const char* what) {
  if (result != ncclSuccess) fail_run("NCCL: {} failed: {}", what, ncclGetErrorString(result));
}

ncclUniqueId make_nccl_id() {
  ncclUniqueId id{};
  check_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
  return id;
}

}  // namespace twobw::transport
