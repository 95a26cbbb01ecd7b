// Where replicas that share the optimizer's state have their sums: each element with its owner, but what ties
// still need whole with all of them.
#pragma once

#include <vector>

#include "engine/transport/replica_sum.h"
#include "engine/weights/layout.h"
#include "engine/weights/range.h"

namespace twobw::runtime {

enum class Ties { All, WithinTheStage };

// Of a flat gradient; each begins where a parameter or a piece of one does. `shards`: of the weights, by
// replica. `summed_everywhere`: of which ties.
transport::SumRanges sum_ranges(const weights::Layout& layout, const std::vector<weights::Range>& shards,
                                Ties summed_everywhere);

}  // namespace twobw::runtime
