// Plans that are near one another by the model are run for a few updates each, and the fastest is taken. The
// model knows how long work takes; not how much is lost where devices that are slower now and then wait for
// one another, which differs from plan to plan.
#pragma once

#include "base/config.h"
#include "measure/trials.h"

namespace twobw::measure {

// Runs it for a few updates, as it would be after a synchronous start.
Trial try_run(const Config& config);

// Updates that a run makes each time.
int trial_updates(const Config& config);

}  // namespace twobw::measure
