#include "app/train/decided_run.h"

#include <utility>

#include "app/train/resume.h"
#include "core/base/codec.h"
#include "engine/runtime/rank_map.h"
#include "text/tokenizer/tokenizer.h"

namespace twobw::train {
namespace {

schedule::Spec spec_of(const Config& config) {
  schedule::Spec spec = runtime::spec_of(config);
  spec.save_every = config.checkpoint.every_updates;
  spec.save_last = config.checkpoint.every_updates > 0 || config.checkpoint.every_minutes > 0;
  return spec;
}

}  // namespace

std::vector<int> DecidedRun::stages_of(int rank, int ranks) const {
  const runtime::RankMap rank_map(spec.shape, ranks, rank);
  std::vector<int> stages;
  for (int stage = 0; stage < spec.shape.stages; ++stage) {
    if (rank_map.replicas_here(stage) > 0) stages.push_back(stage);
  }
  return stages;
}

DecidedRun decide(Config config, const std::vector<int>& split, const std::vector<device::Device>& devices,
                  const std::optional<ResumePoint>& resume, const architecture::Model& layers) {
  config.pipeline.split = split;
  config.resume = "none";
  config.data.changed = DataConfig().changed;  // allowed once
  DecidedRun run{.spec = spec_of(config), .devices = devices};
  run.config = std::move(config);
  if (!resume) return run;
  run.resume = CheckpointId{.folder = resume->folder, .manifest = resume->checksum};
  begin_at(resume->manifest, layers, run.spec);
  return run;
}

std::string encode_run(const DecidedRun& run) {
  return to_bytes(to_yaml(run.config), run.devices, run.resume, run.spec.first_batch, run.spec.begins_drained,
                  run.record_events);
}

DecidedRun decode_run(std::string_view bytes) {
  DecidedRun run;
  std::string config;
  std::int64_t first_batch = 0;
  bool begins_drained = false;
  Decoder decoder(bytes);
  decoder(config, run.devices, run.resume, first_batch, begins_drained, run.record_events);
  decoder.finish();
  run.config = config_from_text(config, "the configuration that process 0 sent");
  run.spec = spec_of(run.config);
  run.spec.first_batch = first_batch;
  run.spec.begins_drained = begins_drained;
  return run;
}

Config computed_with(Config config, const std::string& checkpoint) {
  if (checkpoint.empty()) return config;
  config.model.from = "none";
  config.data.tokenizer = tokenizer::present_tokenizer(config.data.tokenizer, checkpoint + "/model");
  return config;
}

runtime::Setup load(const DecidedRun& run) {
  runtime::Setup setup =
      runtime::prepare(computed_with(run.config, run.resume ? run.resume->folder : ""), run.devices);
  setup.spec = run.spec;
  return setup;
}

}  // namespace twobw::train
