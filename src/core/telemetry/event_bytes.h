// What workers report, as bytes for another process of the run.
#pragma once

#include <string>
#include <string_view>

#include "core/telemetry/event.h"

namespace twobw::telemetry {

std::string to_bytes(const StageUpdate& update);
std::string to_bytes(const Evaluation& evaluation);
// Throw RunError where bytes are missing.
StageUpdate to_update(std::string_view bytes);
Evaluation to_evaluation(std::string_view bytes);

}  // namespace twobw::telemetry
