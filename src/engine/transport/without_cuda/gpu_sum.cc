// In place of gpu_sum.cc where LibTorch or the build has no CUDA: nobody is on a GPU then.
#include "core/base/error.h"
#include "engine/transport/replica_sum.h"

namespace twobw::transport {

MakeSum sums_on_gpus(bool, SumRanges) {
  fail_run("this program was built without CUDA");
}

}  // namespace twobw::transport
