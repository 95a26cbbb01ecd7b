#include "telemetry/trace.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"

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
  std::ofstream file(path);
  file << "[\n";
  for (std::size_t i = 0; i < events.size(); ++i)
    file << cell(events[i]).dump() << (i + 1 < events.size() ? ",\n" : "\n");
  file << "]\n";
  file.close();
  if (!file) fail_run("cannot write the trace to '{}'", path);
}

}  // namespace twobw::telemetry
