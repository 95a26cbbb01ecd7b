// What `twobw compare` prints, as pure functions of the numbers.
#pragma once

#include <optional>
#include <string>

#include "app/train/comparison.h"

namespace twobw::train {

// One line a schedule, and the difference.
std::string tabulate(const Comparison& comparison);

// Updates, tokens and seconds to a validation loss.
std::string tabulate_target(const Comparison& comparison, double target);

// "what to take: ...": 2bw where it reaches the target sooner, else flush; one sentence.
std::string advise(const Comparison& comparison, double target);

// All of it.
std::string report(const Comparison& comparison, std::optional<double> target);

}  // namespace twobw::train
