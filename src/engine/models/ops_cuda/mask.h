// A mask of dropout as kernels take it.
#pragma once

#include "engine/models/dropout.h"
#include "engine/models/kernels_cuda.h"

namespace twobw::models::ops::cuda {

// For x, on whose GPU its key must be. Refers to the key.
twobw::models::cuda::Mask mask_on(const at::Tensor& x, const DropoutMask& mask);

}  // namespace twobw::models::ops::cuda
