// Options of a command that takes a schedule by its letters.
#pragma once

#include <cstdint>

#include "core/schedule/spec.h"

namespace CLI {
class App;
}

namespace twobw::cli {

// `shape`, whose values are the defaults, outlives the command.
void add_shape_options(CLI::App& command, PipelineShape& shape);

// Throws InputError for more forwards than `most`.
void check_forwards(const schedule::Spec& spec, std::int64_t most);

}  // namespace twobw::cli
