// Calls of NCCL, by which GPUs exchange tensors without the host.
#pragma once

#include <nccl.h>

namespace twobw::transport {

// Throws RunError that says what failed, where `result` is an error.
void check_nccl(ncclResult_t result, const char* what);

// What GPUs join each other by: one process makes it, all have it.
ncclUniqueId make_nccl_id();

}  // namespace twobw::transport
