// Options of a command that takes a schedule by its letters.
#pragma once

#include "base/pipeline_shape.h"

namespace CLI {
class App;
}

namespace twobw::cli {

// `shape`, whose values are the defaults, outlives the command.
void add_shape_options(CLI::App& command, PipelineShape& shape);

}  // namespace twobw::cli
