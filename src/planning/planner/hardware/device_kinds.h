// Kinds of device as they stand in YAML: in the catalogue and under `devices` of a cluster file.
#pragma once

#include <string>
#include <vector>

#include "planning/planner/hardware/cluster.h"
#include "planning/planner/hardware/yaml_fields.h"

namespace twobw::planner {

// Every entry of the map is a kind, by its name.
std::vector<DeviceKind> read_kinds(const Fields& kinds);

// "{memory: 24GiB, tflops: 80, ...}", which reads back to the same kind.
std::string print_kind(const DeviceKind& kind);

}  // namespace twobw::planner
