// How a run continues from a checkpoint: which one, the keys of the configuration that must stay, the tensors
// of some stages, and the batch that it begins with.
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
  int replicas = 1;                       // of that run, too
  std::vector<std::string> damage = {};   // a sentence for each newer one, which is damaged
  std::vector<std::string> changes = {};  // a sentence for each data file that has changed, if allowed
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

// What these stages need of the checkpoint in `folder`; the layers of each are as config.pipeline has them.
// No other tensor is read. Throws InputError where one is damaged or missing.
std::shared_ptr<runtime::Restored> read_stages(const std::string& folder, const Config& config,
                                               const std::vector<int>& stages);

// Sets the batch that the run begins with. Where the checkpoint lacks the predicted or older weights of that
// batch, it begins on the true ones.
void begin_at(const checkpoint::Manifest& manifest, const architecture::Model& layers, schedule::Spec& spec);

}  // namespace twobw::train
