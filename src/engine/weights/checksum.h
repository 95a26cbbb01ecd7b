#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "engine/weights/layout.h"

namespace twobw::weights {

// One number a layer of the layout that changes with any bit of its weights; tied copies count too.
std::vector<std::uint64_t> layer_checksums(const Layout& layout, const at::Tensor& flat);

}  // namespace twobw::weights
