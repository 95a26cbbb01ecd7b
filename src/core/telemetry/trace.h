// Events as a picture: the Trace Event Format, which chrome://tracing and Perfetto open.
#pragma once

#include <span>
#include <string>

#include "core/telemetry/event.h"

namespace twobw::telemetry {

// One group of rows a replica, one row a stage; every cell says microbatch, batch and version. Throws
// RunError when it cannot be written.
void write_trace(const std::string& path, std::span<const Event> events);

}  // namespace twobw::telemetry
