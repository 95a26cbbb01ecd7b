// From a configuration to everything a run needs, checked: what can be refused is refused here,
// before any time is spent.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/config.h"
#include "data/tokens.h"
#include "device/place.h"
#include "models/layer.h"
#include "runtime/pipeline.h"
#include "schedule/spec.h"

namespace twobw::train {

struct Setup {
  Config config;
  schedule::Spec spec;
  models::LayerList model;
  std::unique_ptr<data::Source> training, validation;
  std::vector<int> split;             // empty: still to be measured, see choose_split
  std::vector<double> layer_seconds;  // an update's time in each layer, alone; empty unless measured
  std::vector<bool> recompute;
  std::vector<device::Place> places;  // of each worker, by its number (schedule/spec.h)

  runtime::PipelineSetup pipeline() const;
};

schedule::Spec schedule_spec(const Config& config);

// Over all replicas.
double tokens_per_update(const Config& config);

// Throws InputError.
Setup prepare(const Config& config);

// The configuration's devices. Where it leaves them open and computes in a precision that is for GPUs: so
// many of those, or all that there are.
std::vector<std::string> auto_gpus(const Config& config, std::optional<int> count);

// Balances the layers over the stages by times measured on the first stage's device: forward and backward
// of every kind of layer, and the optimizer's step. Fills setup.split and
// setup.layer_seconds; does nothing when the split is given.
void choose_split(Setup& setup);

// The contiguous split of `costs` into `stages` parts, none empty, whose largest sum is smallest.
std::vector<int> balance(const std::vector<double>& costs, int stages);

}  // namespace twobw::train
