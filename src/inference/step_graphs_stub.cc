// For builds without CUDA, where no stage is on a GPU.
#include "base/error.h"
#include "inference/step_graphs.h"

namespace twobw::inference {

std::unique_ptr<StepGraphs> make_step_graphs(StepGraphs::Work, const at::TensorOptions&) {
  assertion_failed("built with CUDA", __FILE__, __LINE__, "steps on a GPU");
}

}  // namespace twobw::inference
