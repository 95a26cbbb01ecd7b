// Number formats to compute in: fp32, and fp16 or bf16 with fp32 master weights.
#pragma once

#include <string>
#include <vector>

namespace twobw {

const std::vector<std::string>& precisions();

// Of weights computed with and of activations. Throws InputError for an unknown precision.
double bytes_per_element(const std::string& precision);

}  // namespace twobw
