// Slurm's short forms of lists.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace twobw::launch {

// "node[03-05,9],rack[0-1]n[1-2],login": the hosts in order. `name` is the variable's, for the InputError.
std::vector<std::string> expand_hosts(std::string_view list, std::string_view name);

// "2(x3),1" is 2, 2, 2, 1: the tasks of each node.
std::vector<int> expand_counts(std::string_view list, std::string_view name);

}  // namespace twobw::launch
