// Which checkpoint a run goes on from, and what of the configuration must be as it was.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/config.h"
#include "checkpoint/manifest.h"

namespace twobw::train {

// A checkpoint before its tensors are read.
struct ResumePoint {
  std::string folder;
  checkpoint::Manifest manifest;
  std::vector<int> split;         // of the run that saved it
  int replicas = 1;               // likewise
  std::vector<std::string> said;  // of newer ones that are damaged
};

// The configuration of a run that continues the one in `resume`: its folder is that one. Unchanged where a
// new run is asked for.
Config continued(const Config& config);

// As config.resume asks: the newest; nothing: a new run. One whose manifest is damaged is named in what is
// said, and the one before it taken. Throws InputError where there is none to take, or where the
// configuration contradicts it.
std::optional<ResumePoint> find_resume_point(const Config& config);
// The one before it, for it is damaged: `problem` says how. Throws likewise.
ResumePoint find_point_before(const ResumePoint& point, const Config& config, const std::string& problem);

// Throws InputError that names the first key that must be as it was when `saved`, and is not.
void check_unchanged(const Config& saved, const Config& now, const std::string& folder);

// A sentence on a run that was planned anew: its stages and replicas, and those of the one that saved it.
std::string describe_change(const ResumePoint& point, const PipelineShape& now, int processes);

}  // namespace twobw::train
