// Ranks in a sentence.
#pragma once

#include <string>
#include <vector>

namespace twobw::control {

// "rank 3", "ranks 1, 3-5"; in increasing order.
std::string describe_ranks(const std::vector<int>& ranks);

}  // namespace twobw::control
