// A whole update in one pass over memory: optimizer, prediction, new weights, cleared gradient. Plain loops
// without LibTorch.
#pragma once

#include <cstdint>

#include "engine/optim/rules.h"

namespace twobw::optim {

// For every rule.
template <typename Rule>
void apply(const Rule& rule, const Streams& streams);

// An update by `rule`, and the prediction of the following one by `next` from streams.partial_gradient.
template <typename Rule>
void apply_and_predict(const Rule& rule, const Rule& next, const Streams& streams);

// The prediction alone: writes streams.compute from streams.source.
template <typename Rule>
void predict(const Rule& next, const Streams& streams);

// An update that is skipped: W(t+1) = W(t), optimizer state untouched, gradient cleared.
void skip(const Streams& streams);

// Sum of squares in double, in an order that depends on n only.
double squared_norm(const float* values, std::int64_t n);

// Size of the pieces of a parameter of n elements whose squares are summed separately: a few dozen pieces, so
// that shards may divide a large parameter and still produce the same sums.
std::int64_t norm_piece(std::int64_t n);

// sum += values; they do not overlap.
void add(float* sum, const float* values, std::int64_t n);

}  // namespace twobw::optim
