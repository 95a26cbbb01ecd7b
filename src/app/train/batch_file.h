// Writes the microbatches of a run to a file, for another training loop on the same data.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/config.h"

namespace twobw::train {

// Writes the inputs of the model in the first updates as safetensors named FIELD.UPDATE.MICROBATCH, both from
// 0: "tokens.0.3". Replica p has microbatches p m to p m + m - 1. `loss_scale` is 1 over the number of labels
// in the update. Throws InputError.
void write_batches(const Config& config, std::int64_t updates, const std::string& path);

}  // namespace twobw::train
