#include "core/telemetry/event.h"

#include <nlohmann/json.hpp>

#include "core/base/output_file.h"

namespace twobw::telemetry {
namespace {

using Json = nlohmann::ordered_json;

Json cell(const Event& event) {
  const schedule::Instruction& instruction = event.instruction;
  Json arguments = {{"batch", instruction.batch}};
  if (instruction.microbatch >= 0) arguments["microbatch"] = instruction.microbatch;
  if (instruction.version >= 0) arguments["version"] = instruction.version;
  return {{"name", name(instruction.op)},
          {"ph", "X"},
          {"ts", event.begin * 1e6},
          {"dur", (event.end - event.begin) * 1e6},
          {"pid", event.replica},
          {"tid", event.stage},
          {"args", arguments}};
}

}  // namespace

void write_trace(const std::string& path, std::span<const Event> events) {
  OutputFile file(path);
  file.append("[\n");
  for (std::size_t i = 0; i < events.size(); ++i)
    file.append(cell(events[i]).dump() + (i + 1 < events.size() ? ",\n" : "\n"));
  file.append("]\n");
  file.close();
}

}  // namespace twobw::telemetry
