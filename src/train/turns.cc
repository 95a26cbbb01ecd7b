#include "train/turns.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace twobw::train {
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

std::vector<Standing> take_turns(std::size_t runs, const Contest& contest,
                                 const std::function<Turn(std::size_t run)>& turn) {
  std::vector<Standing> standings(runs);
  std::vector<std::vector<double>> times(runs);  // seconds a token, by run and turn
  std::vector<double> took(runs);                // the last time
  double spent = 0, next = 0;
  for (int round = 1; round <= kMostRounds && spent + next <= contest.seconds; ++round) {
    double best = 0;
    for (std::size_t i = 0; i < runs; ++i) {
      Standing& standing = standings[i];
      if (standing.left_out) continue;
      const Turn made = turn(i);
      spent += took[i] = made.seconds;
      times[i].push_back(1 / made.tokens_per_s);
      standing.turns = round;
      standing.tokens_per_s = 1 / mean(times[i]);
      best = std::max(best, standing.tokens_per_s);
    }
    const double margin = round == 1 ? 1 : by_chance(times, round);
    next = 0;
    int staying = 0;
    for (std::size_t i = 0; i < runs; ++i) {
      Standing& standing = standings[i];
      if (standing.left_out) continue;
      standing.left_out = standing.tokens_per_s < best * (1 - std::max(contest.tolerance, margin));
      if (standing.left_out) continue;
      next += took[i];
      ++staying;
    }
    if (staying == 1 || margin <= contest.tolerance) break;
  }
  return standings;
}

}  // namespace twobw::train
