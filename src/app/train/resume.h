// Which checkpoint a run goes on from, and what of the configuration must be as it was.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/config.h"
#include "engine/checkpoint/formats/manifest.h"

namespace twobw::train {

// A checkpoint before its tensors are read.
struct ResumePoint {
  std::string folder;
  checkpoint::Manifest manifest;
  std::string checksum;                  // of the manifest's file
  std::vector<int> split = {};           // of the run that saved it
  int replicas = 1;                      // of that run, too
  std::vector<std::string> damage = {};  // a sentence for each newer one, which is damaged
  std::vector<std::string> changes =
      {};  // a sentence for each data file that has changed, if that is allowed
};

// The folder of the run that config.resume names: with auto, run_dir.
std::string resumed_run(const Config& config);
// Whether the run continues another one in a folder of its own.
bool is_branch(const Config& config);

// The configuration of a run that resumes the one in `run` by its folder alone: that in its newest readable
// checkpoint, with `overrides`; run_dir is `run` unless they set it. Without a checkpoint it is that of the
// run's config.yaml. Throws InputError if config.yaml is cut, or differs from the checkpoint in a key that
// the overrides do not set.
Config config_of_run(const std::string& run, const std::vector<std::string>& overrides);

// Of the manifest of the checkpoint in that folder.
std::string manifest_checksum(const std::string& folder);

// As config.resume asks: the newest; nothing: a new run. One whose manifest is damaged is skipped. Throws
// InputError if none can be loaded, or if the configuration or the data contradict it.
std::optional<ResumePoint> find_resume_point(const Config& config);
// The one before it, for it is damaged: `problem` says how. Throws likewise.
ResumePoint find_point_before(const ResumePoint& point, const Config& config, const std::string& problem);

// Throws InputError that names the first key that must be as it was when `saved`, and is not.
void check_unchanged(const Config& saved, const Config& now, const std::string& folder);

// Lines for the log: of damage and of changes.
std::vector<std::string> warnings_of(const ResumePoint& point);

// A sentence on a run that was planned anew: its stages and replicas, and those of the one that saved it.
std::string describe_change(const ResumePoint& point, const PipelineShape& now, int processes);

}  // namespace twobw::train
