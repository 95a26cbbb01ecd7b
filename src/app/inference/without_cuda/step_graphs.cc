// For builds without CUDA, where no stage is on a GPU.
#include "app/inference/step_graphs.h"
#include "core/base/error.h"

namespace twobw::inference {

std::unique_ptr<StepGraphs> make_step_graphs(StepGraphs::Work, const at::TensorOptions&) {
  assertion_failed("built with CUDA", __FILE__, __LINE__, "steps on a GPU");
}

}  // namespace twobw::inference
