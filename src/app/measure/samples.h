#pragma once

#include <algorithm>
#include <vector>

#include "planning/planner/costs/profile.h"

namespace twobw::measure {

// Times of one thing, measured again and again.
class Samples {
 public:
  void add(double value) { values_.push_back(value); }

  // Zero of none.
  planner::Measured summary() const {
    std::vector<double> sorted = values_;
    std::sort(sorted.begin(), sorted.end());
    return {.median = quantile(sorted, 0.5), .spread = (quantile(sorted, 0.75) - quantile(sorted, 0.25)) / 2};
  }

 private:
  static double quantile(const std::vector<double>& sorted, double fraction) {
    if (sorted.empty()) return 0;
    const double place = fraction * static_cast<double>(sorted.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const double above = sorted[std::min(below + 1, sorted.size() - 1)];
    return sorted[below] + (place - static_cast<double>(below)) * (above - sorted[below]);
  }

  std::vector<double> values_;
};

}  // namespace twobw::measure
