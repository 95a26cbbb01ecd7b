#include "engine/control/ranks.h"

#include <fmt/format.h>

namespace twobw::control {

std::string describe_ranks(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "process" : "processes";
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    text += i ? ", " : " ";
    text += last == i ? fmt::format("{}", ranks[i])
                      : fmt::format("{}{}{}", ranks[i], last == i + 1 ? ", " : "-", ranks[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace twobw::control
