// Plans that are near one another by the model are run for a few updates each, and the fastest is taken. The
// model knows how long work takes; not how much is lost where devices that are slower now and then wait for
// one another, which differs from plan to plan.
#pragma once

#include <vector>

#include "base/config.h"

namespace twobw::train {

// Tokens a second, of each.
std::vector<double> try_runs(const std::vector<Config>& runs, int rounds);

// Updates that one of them makes in a round.
inline constexpr int kTrialUpdates = 6;

}  // namespace twobw::train
