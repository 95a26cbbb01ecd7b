// In place of gpu/ where LibTorch or the build has no CUDA.
#include "core/base/error.h"
#include "engine/runtime/stage.h"

namespace twobw::runtime {

std::unique_ptr<Stage> make_gpu_stage(const Config&, const models::Model&, const data::Source&,
                                      const data::Source&, const StageSetup&, const at::TensorOptions&) {
  fail_run("this program was built without CUDA");
}

}  // namespace twobw::runtime
