// Ranks in a sentence; users know them as processes.
#pragma once

#include <string>
#include <vector>

namespace twobw::control {

// "process 3", "processes 1, 3-5"; in increasing order.
std::string describe_ranks(const std::vector<int>& ranks);

}  // namespace twobw::control
