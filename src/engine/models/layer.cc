#include "engine/models/layer.h"

namespace twobw::models {

MicrobatchContext MicrobatchContext::to(at::Device device) const {
  MicrobatchContext moved = *this;
  moved.batch = batch.to(device);
  if (device.is_cuda() && training) {
    moved.key_on_gpu =
        at::full({1}, static_cast<std::int64_t>(dropout_key()), at::TensorOptions(device).dtype(at::kLong));
  }
  return moved;
}

}  // namespace twobw::models
