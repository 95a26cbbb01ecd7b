#include "engine/data/order.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace twobw::data {
namespace {

using Parts = std::vector<std::int64_t>;

// Parts of a pattern of `period` sequences; empty unless every weight has a whole number of them.
Parts whole_parts(const std::vector<double>& weights, double sum, std::int64_t period) {
  constexpr double kRounding = 1e-9;  // rounding error of the weights
  Parts parts;
  for (const double weight : weights) {
    const double exact = weight / sum * static_cast<double>(period);
    const double whole = std::round(exact);
    if (whole < 1 || std::abs(exact - whole) > kRounding) return {};
    parts.push_back(static_cast<std::int64_t>(whole));
  }
  return std::accumulate(parts.begin(), parts.end(), std::int64_t{0}) == period ? parts : Parts{};
}

// Parts of the longest pattern, by largest remainder.
Parts nearest_parts(const std::vector<double>& weights, double sum) {
  Parts parts;
  std::vector<std::pair<double, std::size_t>> lost;
  std::int64_t rest = Blend::kLongest;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double exact = weights[i] / sum * static_cast<double>(Blend::kLongest);
    parts.push_back(std::max<std::int64_t>(1, static_cast<std::int64_t>(exact)));
    lost.emplace_back(static_cast<double>(parts.back()) - exact, i);
    rest -= parts.back();
  }
  std::ranges::sort(lost);
  for (std::int64_t i = 0; i < rest; ++i) ++parts[lost[static_cast<std::size_t>(i)].second];
  return parts;
}

Parts parts_of(const std::vector<double>& weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (std::int64_t period = std::ssize(weights); period < Blend::kLongest; ++period) {
    Parts parts = whole_parts(weights, sum, period);
    if (!parts.empty()) return parts;
  }
  return nearest_parts(weights, sum);
}

}  // namespace

// Proportionate progress (Baruah et al. 1996): sequence i of a corpus with p of P sequences is released at
// n = i P / p and due before n = (i + 1) P / p; the earliest deadline goes first. No corpus is ever a whole
// sequence ahead or behind.
Blend::Blend(const std::vector<double>& weights) : parts_(parts_of(weights)) {
  const std::int64_t period = std::accumulate(parts_.begin(), parts_.end(), std::int64_t{0});
  const auto deadline = [&](std::size_t corpus, std::int64_t number) {
    return ((number + 1) * period + parts_[corpus] - 1) / parts_[corpus];
  };
  std::vector<std::int32_t> given(parts_.size(), 0);
  std::vector<std::int64_t> deadlines;
  for (std::size_t corpus = 0; corpus < parts_.size(); ++corpus) deadlines.push_back(deadline(corpus, 0));
  turns_.reserve(static_cast<std::size_t>(period));
  for (std::int64_t n = 1; n <= period; ++n) {
    std::size_t chosen = parts_.size();
    for (std::size_t corpus = 0; corpus < parts_.size(); ++corpus) {
      const bool owed = given[corpus] * period < parts_[corpus] * n;
      if (owed && (chosen == parts_.size() || deadlines[corpus] < deadlines[chosen])) chosen = corpus;
    }
    turns_.push_back({static_cast<std::int32_t>(chosen), given[chosen]++});
    deadlines[chosen] = deadline(chosen, given[chosen]);
  }
}

Blend::Place Blend::operator()(std::int64_t sequence) const {
  const Turn& turn = turns_[static_cast<std::size_t>(sequence % period())];
  const auto corpus = static_cast<std::size_t>(turn.corpus);
  return {.corpus = corpus, .number = sequence / period() * parts_[corpus] + turn.number};
}

}  // namespace twobw::data
