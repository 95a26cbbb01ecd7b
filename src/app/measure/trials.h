// Which of several runs is the fastest, where the same run is faster one time than another.
#pragma once

#include <functional>
#include <vector>

namespace twobw::measure {

// One go of a run: its rate, and how long it took with all that is around it.
struct Trial {
  double tokens_per_s = 0;
  double seconds = 0;
};

// What is known of a run after its turns.
struct TrialResult {
  double tokens_per_s = 0;  // over all of them
  int turns = 0;
  bool left_out = false;  // before the end, being slower than chance explains
};

struct TrialBudget {
  double seconds = 0;    // rounds follow one another as long as the next fits into these
  double tolerance = 0;  // those who are this share of the rate behind the fastest, or less, stay
};

// All runs in turn, round after round: at least one, at most kMostRounds. From the second on those are left
// out that are behind the fastest by more than the turns' own differences explain. It ends when only one is
// left, or when those who are left are known to be within the tolerance. They have had the same rounds.
std::vector<TrialResult> interleave_trials(std::size_t runs, const TrialBudget& budget,
                                           const std::function<Trial(std::size_t run)>& turn);

inline constexpr int kMostRounds = 20;

}  // namespace twobw::measure
