// A run as one value: rank 0 decides it, every rank executes it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/train/resume.h"
#include "core/base/config.h"
#include "core/schedule/spec.h"
#include "engine/device/device.h"
#include "engine/runtime/setup.h"

namespace twobw::train {

// The checkpoint that a run continues from.
struct CheckpointId {
  std::string folder;
  std::string manifest;  // its checksum

  static void fields(auto& self, auto&& visit) { visit(self.folder, self.manifest); }
};

struct DecidedRun {
  Config config;                        // with the split; `devices` as the user left them
  schedule::Spec spec;                  // with the split, and the batch that the run begins with
  std::vector<device::Device> devices;  // of each worker, by its number (core/schedule/spec.h)
  std::optional<CheckpointId> resume;   // nothing: a new run
  bool record_events = false;

  std::vector<int> stages_of(int rank, int ranks) const;  // that have workers there
};

// Pure. `config`: as asked for or as planned. `layers`: of its model.
DecidedRun decide(Config config, const std::vector<int>& split, const std::vector<device::Device>& devices,
                  const std::optional<ResumePoint>& resume, const architecture::Model& layers);

std::string encode_run(const DecidedRun& run);
DecidedRun decode_run(std::string_view bytes);  // throws InputError

// The configuration that is computed with: a run that resumes has the weights and the tokenizer of its
// checkpoint, whose folder this is (empty: a new run); the model it started from may be gone.
Config computed_with(Config config, const std::string& checkpoint);

// Model, data and devices of the run. Throws InputError for files that this process cannot read.
runtime::Setup load(const DecidedRun& run);

}  // namespace twobw::train
