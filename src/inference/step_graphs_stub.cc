// For builds without CUDA: there are no stages on a GPU then.
#include "base/error.h"
#include "inference/step_graphs.h"

namespace twobw::inference {

std::unique_ptr<StepGraphs> make_step_graphs(StepGraphs::Work, const at::TensorOptions&, std::int64_t, int) {
  assertion_failed("built with CUDA", __FILE__, __LINE__, "steps on a GPU");
}

}  // namespace twobw::inference
