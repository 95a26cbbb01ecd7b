// The number formats that plans know: fp32, and fp16 or bf16 with fp32 master weights.
#pragma once

#include <string>
#include <vector>

#include "base/config.h"
#include "planner/costs.h"

namespace twobw::planner {

const std::vector<std::string>& precisions();

// Of weights computed with and of activations. Throws InputError for an unknown precision.
double bytes_per_element(const std::string& precision);

// What the optimizer of such a run keeps a parameter. `delayed`: the schedule may delay updates, so
// that the corrections for it are on.
StateBytes state_bytes(const OptimizerConfig& optimizer, const std::string& precision, bool delayed);

}  // namespace twobw::planner
