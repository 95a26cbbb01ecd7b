// Prepares and checks everything a run needs: invalid input is refused here, before any time is spent.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/config.h"
#include "core/schedule/spec.h"
#include "engine/checkpoint/pretrained.h"
#include "engine/data/tokens.h"
#include "engine/device/device.h"
#include "engine/models/model.h"
#include "engine/runtime/process_devices.h"
#include "engine/runtime/snapshot.h"
#include "engine/transport/processes.h"

namespace twobw::runtime {

struct Setup {
  Config config;
  schedule::Spec spec;  // an open split is still to be measured, see app/measure/split.h
  models::Model model;
  checkpoint::HeadChange head_change;  // relative to model.from, if it starts from there
  std::shared_ptr<const data::Source> training, validation;
  std::vector<double> layer_seconds;    // an update's time in each layer, alone; empty unless measured
  std::vector<device::Device> devices;  // of each worker, by its number (core/schedule/spec.h)
};

// How a pipeline runs a setup.
struct PipelineOptions {
  bool checksums = false;                         // of the weights, reported with every update
  bool record_events = false;                     // times of every instruction
  bool simulate_peers = false;                    // peer links within one GPU, for tests
  std::shared_ptr<const Restored> restored = {};  // if spec.first_batch is above 0
  // Processes that share the workers, all on CPUs or all on GPUs (engine/runtime/rank_map.h); null: all
  // workers are local. Rank 0 observes the updates and evaluations of all, every process its own snapshots.
  std::shared_ptr<transport::Processes> processes = {};
};

schedule::Spec spec_of(const Config& config);

// Tokens of all replicas.
double tokens_per_update(const Config& config);

// `devices`: of each worker, if workers are in several processes (devices_of_processes()); empty: from the
// configuration, all in this process. Throws InputError.
Setup prepare(const Config& config, std::vector<device::Device> devices = {},
              AutoDevices policy = AutoDevices::Fast);

// The configuration's devices. If it leaves them open and choose_devices() takes GPUs: `count` of those, or
// all.
std::vector<std::string> auto_gpus(const Config& config, std::optional<int> count,
                                   AutoDevices policy = AutoDevices::Fast);

// The checks of prepare() for programs without data or an optimizer. They throw InputError: for a split that
// does not cover the model's layers; for devices that cannot compute in train.precision; for a tokenizer
// with more tokens than the model.
void check_split(const Config& config, const models::Model& model);
std::vector<device::Device> devices_for(const Config& config, int workers);
void check_tokenizer(const Config& config);

}  // namespace twobw::runtime
