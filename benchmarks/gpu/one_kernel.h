// Steps of a decoder in one kernel beside the graph of kernels that they are else: how long they take,
// without some of what they do, and where blocks wait.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

#include "inference/step_graphs.h"

namespace twobw {

// `work` keeps keys and values of `places` places; rows have seen `seen`. `weights`: bytes of them.
void print_one_kernel(const inference::StepGraphs::Work& work, const at::TensorOptions& compute,
                      std::int64_t rows, std::int64_t seen, std::int64_t places, double weights);

}  // namespace twobw
