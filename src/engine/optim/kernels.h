// One pass over memory for a whole update: optimizer, prediction, new weights, and the
// gradient cleared for its next batch. Plain loops, no LibTorch.
#pragma once

#include <cstdint>

#include "engine/optim/rules.h"

namespace twobw::optim {

// For every rule.
template <typename Rule>
void apply(const Rule& rule, const Streams& streams);

// An update by `rule`, and weights to compute with that take the one after, by `next` from
// streams.partial_gradient, into account.
template <typename Rule>
void apply_and_predict(const Rule& rule, const Rule& next, const Streams& streams);

// The prediction alone: writes streams.compute from streams.source.
template <typename Rule>
void predict(const Rule& next, const Streams& streams);

// An update that is skipped: W(t+1) = W(t), optimizer state untouched, gradient cleared.
void skip(const Streams& streams);

// The sum of squares in double, in an order that depends on n alone.
double squared_norm(const float* values, std::int64_t n);

// Elements of a parameter of n, from its first on, whose squares are summed by themselves: of a few dozen
// pieces, so that replicas may share a large parameter and still make the same sums.
std::int64_t norm_piece(std::int64_t n);

// sum += values; they do not overlap.
void add(float* sum, const float* values, std::int64_t n);

}  // namespace twobw::optim
