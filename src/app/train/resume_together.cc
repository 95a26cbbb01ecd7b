#include "app/train/resume_together.h"

#include <fmt/format.h>

#include "app/train/restore.h"
#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/text_file.h"
#include "engine/checkpoint/manifest.h"
#include "engine/runtime/placement.h"

namespace twobw::train {
namespace {

// What process 0 asks the others to read.
struct ReadRequest {
  std::string folder;    // empty: no more
  std::string manifest;  // its checksum
  std::string config;    // as YAML, with its split
};

std::string to_bytes(const ReadRequest& request) {
  return ByteWriter()
      .add(std::string_view(request.folder))
      .add(std::string_view(request.manifest))
      .add(std::string_view(request.config))
      .take();
}

ReadRequest to_read_request(std::string_view bytes) {
  ByteReader reader(bytes);
  ReadRequest request;
  request.folder = reader.take_text();
  request.manifest = reader.take_text();
  request.config = reader.take_text();
  return request;
}

std::string manifest_checksum(const std::string& folder) {
  return checkpoint::checksum(read_text("checkpoint", folder + "/" + checkpoint::kManifest));
}

Reading read_here(const std::string& folder, const Config& config, const transport::Processes* processes) {
  try {
    return {.restored = read_stages(folder, config, stages_here(config.pipeline, processes)), .problem = {}};
  } catch (const InputError& error) {
    return {.restored = {}, .problem = error.what()};
  }
}

// Another file under the same name would be another run's.
void check_same(const ReadRequest& request) {
  std::string here;
  try {
    here = manifest_checksum(request.folder);
  } catch (const InputError&) {
    fail_input(
        "the checkpoint '{}' is not there for this process; run_dir must be on a file system that all hosts "
        "of the run share",
        request.folder);
  }
  if (here == request.manifest) return;
  fail_input(
      "the checkpoint '{}' is another one for this process than for process 0; run_dir must be on a file "
      "system that all hosts of the run share",
      request.folder);
}

}  // namespace

std::vector<int> stages_here(const PipelineShape& shape, const transport::Processes* processes) {
  const runtime::Placement placement(shape, processes ? processes->size() : 1,
                                     processes ? processes->rank() : 0);
  std::vector<int> stages;
  for (int stage = 0; stage < shape.stages; ++stage) {
    if (placement.replicas_here(stage) > 0) stages.push_back(stage);
  }
  return stages;
}

Reading read_together(const std::string& folder, const Config& config, transport::Processes* processes) {
  if (processes == nullptr) return read_here(folder, config, nullptr);
  processes->mail().send_to_others(
      to_bytes({.folder = folder, .manifest = manifest_checksum(folder), .config = to_yaml(config)}));
  Reading reading = read_here(folder, config, processes);
  if (!reading.problem.empty()) reading.problem = fmt::format("process 0: {}", reading.problem);
  for (int rank = 1; rank < processes->size(); ++rank) {
    const std::string problem = ByteReader(processes->mail().receive(rank)).take_text();
    if (reading.problem.empty() && !problem.empty())
      reading.problem = fmt::format("process {}: {}", rank, problem);
  }
  return reading;
}

void end_reading(transport::Processes& processes) {
  processes.mail().send_to_others(to_bytes(ReadRequest{}));
}

std::shared_ptr<runtime::Restored> read_as_told(transport::Processes& processes) {
  std::shared_ptr<runtime::Restored> restored;
  while (true) {
    const ReadRequest request = to_read_request(processes.mail().receive(0));
    if (request.folder.empty()) return restored;
    check_same(request);
    const Config config = config_from_text(request.config, "the configuration that process 0 sent");
    Reading reading = read_here(request.folder, config, &processes);
    restored = std::move(reading.restored);
    processes.mail().send(0, ByteWriter().add(std::string_view(reading.problem)).take());
  }
}

}  // namespace twobw::train
