// For builds without CUDA.
#include "app/inference/decoder.h"
#include "core/base/error.h"

namespace twobw::inference {

StepGraphs make_step_graphs(StepWork, const at::TensorOptions&) {
  assertion_failed("built with CUDA", __FILE__, __LINE__, "steps on a GPU");
}

}  // namespace twobw::inference
