// In place of with_cuda/.
#include "core/base/error.h"
#include "engine/optim/serial.h"

namespace twobw::optim {

std::unique_ptr<SerialOptimizer> make_serial_gpu_optimizer(const Config&, const weights::Layout&,
                                                           const at::Tensor&, const at::Tensor&, bool) {
  fail_run("this program was built without CUDA");
}

}  // namespace twobw::optim
