#include "train/turns.h"

#include <algorithm>
#include <cmath>

namespace twobw::train {

std::vector<Standing> take_turns(std::size_t runs, double seconds,
                                 const std::function<Turn(std::size_t run)>& turn) {
  std::vector<Standing> standings(runs);
  std::vector<double> inverse(runs);  // sum of seconds a token
  std::vector<double> took(runs);     // the last time
  double spent = 0, next = 0;
  for (int round = 1; round <= kMostRounds && spent + next <= seconds; ++round) {
    double best = 0;
    for (std::size_t i = 0; i < runs; ++i) {
      Standing& standing = standings[i];
      if (standing.left_out) continue;
      const Turn made = turn(i);
      spent += took[i] = made.seconds;
      inverse[i] += 1 / made.tokens_per_s;
      standing.turns = round;
      standing.tokens_per_s = round / inverse[i];
      best = std::max(best, standing.tokens_per_s);
    }
    next = 0;
    int staying = 0;
    for (std::size_t i = 0; i < runs; ++i) {
      Standing& standing = standings[i];
      if (standing.left_out) continue;
      standing.left_out = standing.tokens_per_s < best * (1 - kChance / std::sqrt(round));
      if (standing.left_out) continue;
      next += took[i];
      ++staying;
    }
    if (staying == 1) break;
  }
  return standings;
}

}  // namespace twobw::train
