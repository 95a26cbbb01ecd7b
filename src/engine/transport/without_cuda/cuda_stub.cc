// Stubs for builds without CUDA, in which no worker is on a GPU.
#include "core/base/error.h"
#include "engine/transport/link.h"
#include "engine/transport/replica_sum.h"

namespace twobw::transport {

std::unique_ptr<Link> peer_link(WaitHub&) {
  fail_run("this program was built without CUDA");
}

MakeSum sums_on_gpus(bool, SumRanges) {
  fail_run("this program was built without CUDA");
}

}  // namespace twobw::transport
