// In place of gpu/ where LibTorch or the build has no CUDA.
#include "core/base/error.h"
#include "engine/runtime/stage_compute.h"

namespace twobw::runtime {

std::unique_ptr<StageCompute> make_gpu_compute(StageState&) {
  fail_run("this program was built without CUDA");
}

}  // namespace twobw::runtime
