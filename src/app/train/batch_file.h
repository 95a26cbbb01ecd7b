// The microbatches of a run as a file, for a training loop elsewhere that is to see the same.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/config.h"

namespace twobw::train {

// Writes the tensors that the model reads of the run's first updates as safetensors, under
// FIELD.UPDATE.MICROBATCH, both from 0 on: "tokens.0.3". Microbatches of replica p are numbers p m to p m + m
// - 1. `loss_scale` is 1 over the number of labels in the update. Throws InputError.
void write_batches(const Config& config, std::int64_t updates, const std::string& path);

}  // namespace twobw::train
