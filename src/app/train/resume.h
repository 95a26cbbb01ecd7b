// Resuming from a checkpoint: choosing it, checking the configuration against it, reading the tensors of some
// stages, and the first batch.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/config.h"
#include "core/schedule/spec.h"
#include "engine/checkpoint/formats/manifest.h"
#include "engine/models/model.h"
#include "engine/runtime/snapshot.h"

namespace twobw::train {

// A checkpoint before its tensors are read.
struct ResumePoint {
  std::string folder;
  checkpoint::Manifest manifest;
  std::string checksum;                   // of the manifest's file
  std::vector<int> split = {};            // of the run that saved it
  int replicas = 1;                       // of the run that saved it
  std::vector<std::string> damage = {};   // one sentence per newer checkpoint, all damaged
  std::vector<std::string> changes = {};  // one sentence per data file that has changed, if allowed
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

// Checksum of the manifest of the checkpoint in that folder.
std::string manifest_checksum(const std::string& folder);

// The newest checkpoint that config.resume names; nothing for a new run. Skips damaged manifests. Throws
// InputError if none can be loaded, or if the configuration or the data contradict it.
std::optional<ResumePoint> find_resume_point(const Config& config);
// The one before `point`, which is damaged as `problem` says. Throws as find_resume_point() does.
ResumePoint find_point_before(const ResumePoint& point, const Config& config, const std::string& problem);

// Throws InputError that names the first key that must not change and differs from `saved`.
void check_unchanged(const Config& saved, const Config& now, const std::string& folder);

// Lines for the log on damage and changes.
std::vector<std::string> warnings_of(const ResumePoint& point);

// A sentence on a run with a new plan: its stages and replicas, and those of the run that saved `point`.
std::string describe_change(const ResumePoint& point, const PipelineShape& now, int processes);

// Reads the tensors of these stages from the checkpoint in `folder`, and no others; config.pipeline has the
// layers of each stage. Throws InputError if a tensor is damaged or missing.
std::shared_ptr<runtime::Restored> read_stages(const std::string& folder, const Config& config,
                                               const std::vector<int>& stages);

// Sets the first batch of the run. It runs on the true weights if the checkpoint lacks its predicted or older
// ones.
void begin_at(const checkpoint::Manifest& manifest, const architecture::Model& layers, schedule::Spec& spec);

}  // namespace twobw::train
