// Where a run goes on from: the newest checkpoint that is good, and what of the configuration must be as it
// was.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/config.h"
#include "models/model.h"
#include "runtime/restored.h"
#include "schedule/spec.h"

namespace twobw::train {

struct ResumePoint {
  std::string folder;  // of the checkpoint
  std::shared_ptr<runtime::Restored> restored;
  std::vector<int> split;  // of the run that saved it
  int replicas = 1;        // likewise
  std::vector<std::string> said;
};

// The configuration of a run that continues the one in `resume`: its folder is that one. Unchanged where a
// new run is asked for.
Config continued(const Config& config);

// As config.resume asks; nothing: a new run. A damaged checkpoint is named in what is said, and the one
// before it taken. Throws InputError where there is none to take, or where the configuration contradicts it.
std::optional<ResumePoint> find_resume_point(const Config& config);

// From exactly this checkpoint, which another process of the run has chosen. Throws InputError where it
// cannot be read here.
ResumePoint resume_from(const Config& config, const std::string& folder);

// Drops what belongs to none of the stages.
void keep_stages(runtime::Restored& restored, const models::Model& model, const PipelineShape& shape,
                 const std::vector<int>& stages);

// Throws InputError that names the first key that must be as it was when `saved`, and is not.
void check_unchanged(const Config& saved, const Config& now, const std::string& folder);

// A sentence on a run that was planned anew: its stages and replicas, and those of the one that saved it.
std::string describe_change(const ResumePoint& point, const PipelineShape& now, int processes);

// Sets where the run begins. Where the checkpoint lacks what the first batch runs on besides the true
// weights, it begins on those.
void begin_at(const runtime::Restored& restored, const models::Model& model, schedule::Spec& spec);

}  // namespace twobw::train
