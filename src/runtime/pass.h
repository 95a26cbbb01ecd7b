// What a microbatch is: its tokens and the keys of its randomness, by its number alone. Pipeline and oracle
// both ask here, so they train on the same.
#pragma once

#include <cstdint>

#include "base/config.h"
#include "data/tokens.h"
#include "models/layer.h"

namespace twobw::runtime {

// Microbatch k = 0, 1, 2, ... of one replica. Of update j replica p runs m microbatches, which are number
// p*m to p*m + m-1 of all the replicas' together; that number keys data and dropout.
models::Pass training_pass(const Config& config, const data::Source& training, int replica, std::int64_t k);

models::Pass validation_pass(const Config& config, const data::Source& validation, std::int64_t index);

}  // namespace twobw::runtime
