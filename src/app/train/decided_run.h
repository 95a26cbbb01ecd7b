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
  Config config;                        // with the split; `devices` as the user set them
  schedule::Spec spec;                  // with the split and the first batch
  std::vector<device::Device> devices;  // by worker (core/schedule/spec.h)
  std::optional<CheckpointId> resume;   // nothing: a new run
  bool record_events = false;

  std::vector<int> stages_of(int rank, int ranks) const;  // with workers on this rank
};

// Pure. `config`: as given or as planned. `layers`: of its model.
DecidedRun decide(Config config, const std::vector<int>& split, const std::vector<device::Device>& devices,
                  const std::optional<ResumePoint>& resume, const architecture::Model& layers);

std::string encode_run(const DecidedRun& run);
DecidedRun decode_run(std::string_view bytes);  // throws InputError

// The configuration with the weights and the tokenizer of `checkpoint`, the folder of a resumed run (empty: a
// new run): model.from may be gone.
Config computed_with(Config config, const std::string& checkpoint);

// Loads model, data and devices of the run. Throws InputError for files that this process cannot read.
runtime::Setup load(const DecidedRun& run);

}  // namespace twobw::train
