#include "app/measure/trials.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace twobw::measure {
namespace {

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// How far two runs' means may be apart by chance, as a share of them, all having had so many turns: twice the
// standard error of the difference, and more the fewer turns it is known from (Student's t, expanded).
double by_chance(const std::vector<std::vector<double>>& runs, int turns) {
  double squares = 0, degrees = 0;  // turns of all runs differ alike
  for (const std::vector<double>& times : runs) {
    const double middle = mean(times);
    for (const double time : times) squares += (time / middle - 1) * (time / middle - 1);
    degrees += static_cast<double>(times.size()) - 1;
  }
  const double errors = 2 + 2.5 / degrees + 3.1 / (degrees * degrees);
  return errors * std::sqrt(squares / degrees * 2 / turns);
}

}  // namespace

std::vector<TrialResult> interleave_trials(std::size_t runs, const TrialBudget& budget,
                                           const std::function<Trial(std::size_t run)>& turn) {
  std::vector<TrialResult> results(runs);
  std::vector<std::vector<double>> times(runs);  // seconds a token, by run and turn
  std::vector<double> took(runs);                // the last time
  double spent = 0, next = 0;
  for (int round = 1; round <= kMostRounds && spent + next <= budget.seconds; ++round) {
    double best = 0;
    for (std::size_t i = 0; i < runs; ++i) {
      TrialResult& result = results[i];
      if (result.left_out) continue;
      const Trial made = turn(i);
      spent += took[i] = made.seconds;
      times[i].push_back(1 / made.tokens_per_s);
      result.turns = round;
      result.tokens_per_s = 1 / mean(times[i]);
      best = std::max(best, result.tokens_per_s);
    }
    const double margin = round == 1 ? 1 : by_chance(times, round);
    next = 0;
    int staying = 0;
    for (std::size_t i = 0; i < runs; ++i) {
      TrialResult& result = results[i];
      if (result.left_out) continue;
      result.left_out = result.tokens_per_s < best * (1 - std::max(budget.tolerance, margin));
      if (result.left_out) continue;
      next += took[i];
      ++staying;
    }
    if (staying == 1 || margin <= budget.tolerance) break;
  }
  return results;
}

}  // namespace twobw::measure
