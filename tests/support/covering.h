// Covering arrays: few combinations of settings in which every pair of levels of two factors occurs.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace twobw {

// Whether `make test-all` runs: sweeps are complete then.
inline bool full_sweeps() {
  return std::getenv("TWOBW_FULL_SWEEPS") != nullptr;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;  // ten times slower
#else
inline constexpr bool kSanitized = false;
#endif

// The levels of a factor; the first is the plain one.
using Factor = std::vector<std::string>;

// A greedy generator (AETG; Cohen et al. 1997). A combination is a level of each factor, joined by spaces.
// The one of all plain levels must be valid. Complete sweeps cover every triple of levels, sanitized tests
// every level.
class Covering {
 public:
  using Valid = std::function<bool(const std::string& combination)>;

  Covering(std::vector<Factor> factors, Valid valid)
      : factors_(std::move(factors)), valid_(std::move(valid)), uncovered_(kItems * kItems * kItems) {
    const int count = static_cast<int>(factors_.size());
    for (int i = 0, items = 0; i < count; items += static_cast<int>(factors_[i++].size()))
      first_item_.push_back(items);
  }

  std::vector<std::string> combinations() {
    for_each_tuple({}, 0, [&](const Levels& tuple) { uncovered_[key(tuple)] = true; });
    for_each_tuple({}, 0, [&](const Levels& tuple) {
      if (uncovered_[key(tuple)]) add_row(tuple);
    });
    for (const Factor& factor : factors_) {
      for (const std::string& level : factor) {
        const auto has = [&](const std::string& row) { return row.find(level) != std::string::npos; };
        if (std::ranges::none_of(rows_, has)) throw std::logic_error(level + " is never valid");
      }
    }
    return rows_;
  }

 private:
  struct Level {
    int factor, level;
  };
  using Levels = std::vector<Level>;
  using Row = std::vector<int>;  // by factor

  static constexpr int kItems = 128;  // at least the levels of all factors
  const std::size_t strength_ = 2 + (full_sweeps() ? 1 : 0) - (kSanitized ? 1 : 0);

  void for_each_tuple(Levels tuple, int from, const std::function<void(const Levels&)>& function) const {
    if (tuple.size() == strength_) return function(tuple);
    for (int factor = from; factor < static_cast<int>(factors_.size()); ++factor) {
      for (int level = 0; level < static_cast<int>(factors_[factor].size()); ++level) {
        tuple.push_back({factor, level});
        for_each_tuple(tuple, factor + 1, function);
        tuple.pop_back();
      }
    }
  }

  // In any order of the tuple.
  std::size_t key(Levels tuple) const {
    std::ranges::sort(tuple, {}, &Level::factor);
    std::size_t key = 0;
    for (const Level& at : tuple) key = key * kItems + first_item_[at.factor] + at.level;
    return key;
  }

  // Uncovered tuples of this level and of others that are settled.
  int gain(Level of, const Levels& settled) const {
    if (strength_ == 1) return uncovered_[key({of})];
    int count = 0;
    for (std::size_t i = 0; i < settled.size(); ++i) {
      if (strength_ == 2) count += uncovered_[key({of, settled[i]})];
      for (std::size_t j = 0; strength_ == 3 && j < i; ++j)
        count += uncovered_[key({of, settled[i], settled[j]})];
    }
    return count;
  }

  std::string text(const Row& row) const {
    std::string text;
    for (std::size_t factor = 0; factor < row.size(); ++factor) {
      const std::string& level = factors_[factor][row[factor]];
      if (!level.empty()) text += (text.empty() ? "" : " ") + level;
    }
    return text;
  }

  // Changes a level of another factor if the tuple is not valid by itself.
  bool make_valid(Row& row, Levels& settled) const {
    if (valid_(text(row))) return true;
    for (int factor = 0; factor < static_cast<int>(row.size()); ++factor) {
      if (std::ranges::find(settled, factor, &Level::factor) != settled.end()) continue;
      for (int level = 1; level < static_cast<int>(factors_[factor].size()); ++level) {
        row[factor] = level;
        if (!valid_(text(row))) continue;
        settled.push_back({factor, level});
        return true;
      }
      row[factor] = 0;
    }
    return false;
  }

  void add_row(const Levels& tuple) {
    const int count = static_cast<int>(factors_.size());
    Row row(factors_.size(), 0);
    Levels settled = tuple;
    for (const Level& at : tuple) row[at.factor] = at.level;
    if (!make_valid(row, settled)) return;
    for (int i = 0; i < count; ++i) {
      const int factor = (i + static_cast<int>(rows_.size())) % count;
      if (std::ranges::find(settled, factor, &Level::factor) != settled.end()) continue;
      Levels choices;
      const int levels = static_cast<int>(factors_[factor].size());
      for (int level = 0; level < levels; ++level)
        choices.push_back({factor, (level + static_cast<int>(rows_.size())) % levels});
      std::ranges::stable_sort(choices, std::greater<>(),
                               [&](const Level& choice) { return gain(choice, settled); });
      for (const Level& choice : choices) {
        const int plain = std::exchange(row[factor], choice.level);
        if (choice.level == plain || valid_(text(row))) break;
        row[factor] = plain;
      }
      settled.push_back({factor, row[factor]});
    }
    rows_.push_back(text(row));
    mark_covered({}, 0, row);
  }

  void mark_covered(Levels tuple, int from, const Row& row) {
    if (tuple.size() == strength_) {
      uncovered_[key(tuple)] = false;
      return;
    }
    for (int factor = from; factor < static_cast<int>(row.size()); ++factor) {
      tuple.push_back({factor, row[factor]});
      mark_covered(tuple, factor + 1, row);
      tuple.pop_back();
    }
  }

  const std::vector<Factor> factors_;
  const Valid valid_;
  std::vector<int> first_item_;  // by factor
  std::vector<bool> uncovered_;  // by key
  std::vector<std::string> rows_;
};

}  // namespace twobw
