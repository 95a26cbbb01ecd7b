// How the processes of a run go on from one checkpoint: process 0 names it, each reads what its workers need,
// and where any of them finds damage all go back to the one before.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/config.h"
#include "core/base/pipeline_shape.h"
#include "engine/runtime/snapshot.h"
#include "engine/transport/processes.h"

namespace twobw::train {

// Those that workers here have, of any replica; all of them where `processes` is null.
std::vector<int> stages_here(const PipelineShape& shape, const transport::Processes* processes);

struct Reading {
  std::shared_ptr<runtime::Restored> restored;  // of the stages here
  std::string problem;                          // what is damaged, and which process found it; empty: nothing
};

// On process 0, or alone: reads the checkpoint in `folder` with all others, which take the configuration from
// here; its split is not open.
Reading read_together(const std::string& folder, const Config& config, transport::Processes* processes);
// On process 0, after the last reading: no more is to be read. Also where none was.
void end_reading(transport::Processes& processes);

// Elsewhere: reads what process 0 names until it ends that. Of the last of it; null: there was none. Throws
// InputError where the checkpoint is not the one that process 0 has.
std::shared_ptr<runtime::Restored> read_as_told(transport::Processes& processes);

}  // namespace twobw::train
