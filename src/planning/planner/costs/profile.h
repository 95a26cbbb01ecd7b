// profile.json: what `twobw profile` measured, in a form that people can read and `twobw plan` checks.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/base/config.h"
#include "planning/planner/costs/layer_costs.h"
#include "planning/planner/hardware/cluster.h"

namespace twobw::planner {

inline constexpr int kProfileVersion = 7;

struct Measured {
  double median = 0;
  double spread = 0;  // half the distance between the quartiles
};

// One kind of layer at one microbatch size.
struct KindTimes {
  int microbatch = 1;
  Measured forward, backward;
  // Backward of a recomputed layer: the forward again, and the backward.
  Measured recomputed_backward;
  double saved_bytes = 0, kept = 0, output = 0, working = 0;  // bytes, as in LayerCost
};

struct LayerKind {
  double parameters = 0, tied = 0;
  std::vector<KindTimes> times;  // by growing microbatch size
};
// Microbatches that it was measured with.
std::vector<int> sizes_of(const LayerKind& kind);

struct Profile {
  int version = kProfileVersion;
  std::string device;                // "cpu: 1 core of Neoverse-V1"
  double device_memory = 0;          // bytes
  std::string program, libtorch;     // versions
  std::string created;               // date
  ModelConfig model;                 // every setting that affects the costs of a layer
  std::string precision, optimizer;  // of the run
  std::map<std::string, LayerKind> kinds;
  std::vector<std::string> layers;  // the kind of every layer, in order
  double tokens_per_sequence_bytes = 0;
  Measured step_per_parameter, predict_per_parameter;
  std::map<std::string, LinkSpec> links;  // "local": between two workers of this machine, ...
};

std::string to_json(const Profile& profile);
// Throws InputError: not JSON, a missing field, another version.
Profile load_profile(const std::string& path);
// Overload for its text; `path` names the file in messages.
Profile parse_profile(const std::string& text, const std::string& path);

// Throws InputError when the profile is of another model than `config` asks for: names the first key that
// differs. The number of blocks may differ: kinds are measured once.
void check_matches(const Profile& profile, const Config& config, const std::vector<std::string>& layer_kinds);

// The profile as costs of these layers, on a device that is `speed` times as fast.
CostTable costs_of(const Profile& profile, const std::vector<std::string>& layer_kinds, double speed = 1);

}  // namespace twobw::planner
