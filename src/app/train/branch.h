// A run that continues another one in a folder of its own (resume=RUN run_dir=OTHER). RUN stays as it is.
#pragma once

#include "app/train/resume.h"
#include "app/train/run_directory.h"
#include "core/base/config.h"

namespace twobw::train {

// Gives the branch its own copy of all that it needs of the run that it continues from `point`, but for
// metrics.jsonl: that may be deleted then. Throws InputError or RunError.
void begin_branch(const Config& config, const ResumePoint& point, const RunDirectory& directory);

}  // namespace twobw::train
