#include "train/turns.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace twobw::train {
namespace {

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// The standard deviation of a turn, as a share of its run's mean: the same for all runs.
double deviation(const std::vector<std::vector<double>>& runs) {
  double squares = 0, degrees = 0;
  for (const std::vector<double>& turns : runs) {
    const double middle = mean(turns);
    for (const double turn : turns) squares += (turn / middle - 1) * (turn / middle - 1);
    degrees += static_cast<double>(turns.size()) - 1;
  }
  return std::sqrt(squares / degrees);
}

double margin(const std::vector<std::vector<double>>& runs, int round) {
  return round == 1 ? kFirstMargin : 2 * deviation(runs) / std::sqrt(round);
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
    const double least = best * (1 - std::max(contest.tolerance, margin(times, round)));
    next = 0;
    int staying = 0;
    for (std::size_t i = 0; i < runs; ++i) {
      Standing& standing = standings[i];
      if (standing.left_out) continue;
      standing.left_out = standing.tokens_per_s < least;
      if (standing.left_out) continue;
      next += took[i];
      ++staying;
    }
    if (staying == 1) break;
  }
  return standings;
}

}  // namespace twobw::train
