#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/text_file.h"
#include "planning/planner/hardware/cluster.h"
#include "planning/planner/hardware/device_kinds.h"

namespace twobw::planner {

// The text of devices.yaml, which the build puts into the program: see devices.cc.in.
extern const char* const kDevicesYaml;

const std::vector<DeviceKind>& device_catalogue() {
  static const std::vector<DeviceKind> kinds =
      read_kinds(Fields(parse_yaml(kDevicesYaml, "devices.yaml", true), "devices.yaml", ""));
  return kinds;
}

const DeviceKind& known_device(const std::string& name) {
  std::vector<std::string> known;
  for (const DeviceKind& kind : device_catalogue()) {
    if (kind.name == name) return kind;
    known.push_back(kind.name);
  }
  const std::string best = nearest(name, known);
  fail_input("the device '{}' is not known; {}", name,
             best.empty() ? fmt::format("the catalogue has {}", fmt::join(known, ", "))
                          : fmt::format("did you mean '{}'?", best));
}

}  // namespace twobw::planner
