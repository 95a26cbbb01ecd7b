// The curves of a comparison as a picture.
#pragma once

#include <string>

#include "train/comparison.h"

namespace twobw::train {

// Validation loss over updates and over seconds, side by side: each seed a thin line, their mean a thick one.
std::string draw_svg(const Comparison& comparison);

}  // namespace twobw::train
