// One pass over memory for a whole update: optimizer, extrapolations, new weights, and the gradient
// cleared for its next batch. Plain loops, no LibTorch.
#pragma once

#include <cstdint>

#include "optim/rules.h"

namespace twobw::optim {

// For both rules.
template <typename Rule>
void apply(const Rule& rule, const Extrapolation& extrapolation, const Streams& streams);

// An update that is skipped: W(t+1) = W(t), optimizer state untouched, gradient cleared.
void skip(const Extrapolation& extrapolation, const Streams& streams);

// The sum of squares in double, in an order that depends on n alone.
double squared_norm(const float* values, std::int64_t n);

}  // namespace twobw::optim
