// Plans that are near one another by the model are run for a few updates each, and the fastest is taken. The
// model knows how long work takes; not how much is lost where devices that are slower now and then wait for
// one another, which differs from plan to plan.
#pragma once

#include <cstdint>
#include <map>

#include "app/measure/trials.h"
#include "core/base/config.h"

namespace twobw::measure {

// Runs it for a few updates, as it would be after a synchronous start.
Trial try_run(const Config& config);

// What is run: the configuration, but for so few updates, and nothing but updates.
int trial_updates(const Config& config);
Config trial_config(const Config& config);

// Tokens a second while the pipeline neither fills nor empties. `ends`: when each update ended on the last
// worker, in seconds.
double trial_rate(const Config& config, const std::map<std::int64_t, double>& ends);

}  // namespace twobw::measure
