// Layers dealt out to stages by the bytes of their weights, which bound a forward of few tokens.
#pragma once

#include <vector>

#include "planning/architecture/layer.h"

namespace twobw::inference {

// Layers of each of so many stages, at least one each: the largest stage is as small as it can be.
std::vector<int> even_split(const architecture::Model& model, int stages);

}  // namespace twobw::inference
