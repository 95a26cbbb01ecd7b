#include "app/train/checkpoints.h"

#include <fmt/chrono.h>

#include <ctime>
#include <memory>
#include <utility>

#include "app/train/config_digest.h"
#include "core/base/output_file.h"
#include "engine/checkpoint/pretrained.h"

namespace twobw::train {
namespace {

// The two ends of a tie predict apart; all else they have in common.
bool differs_between_ends(const std::string& buffer) {
  return buffer == "predicted" || buffer == "compute" || buffer.starts_with("before");
}

void add_parameters(const ModelConfig& model, const runtime::Snapshot& snapshot,
                    checkpoint::Contents& contents) {
  for (const auto& [buffer, flat] : snapshot.buffers) {
    for (const weights::Parameter& parameter : snapshot.layout.parameters()) {
      if (parameter.alias) continue;
      if (!parameter.spec.tied_to.empty() && !differs_between_ends(buffer)) continue;
      const at::Tensor tensor =
          flat.narrow(0, parameter.offset, parameter.count).view(parameter.spec.shape).to(at::kFloat);
      if (buffer == "weights") {
        for (const auto& [name, stored] : checkpoint::to_stored(model, parameter.spec, tensor))
          contents.model.push_back({name, stored.contiguous()});
      } else {
        contents.state.push_back({buffer + "/" + parameter.spec.name, tensor});
      }
    }
  }
}

Json layout_json(const schedule::Spec& spec) {
  return {{"schedule", std::string(name(spec.shape.schedule))},
          {"predict", spec.shape.predicts()},
          {"stages", spec.shape.stages},
          {"replicas", spec.shape.replicas},
          {"microbatch", spec.shape.microbatch},
          {"microbatches", spec.shape.microbatches},
          {"extra", spec.shape.extra},
          {"step_slack", spec.shape.step_slack},
          {"split", spec.shape.split}};
}

}  // namespace

Checkpoints::Checkpoints(const runtime::Setup& setup, const Config& decided,
                         checkpoint::ModelFiles model_files, const runtime::DataPosition& position)
    : setup_(setup),
      run_dir_(decided.run_dir),
      config_(to_yaml(decided)),
      data_(record_data(decided)),
      model_files_(std::move(model_files)),
      position_(position),
      updates_(setup.spec.first_batch),
      writer_(checkpoint::store_of(run_dir_), setup.config.checkpoint.keep,
              [this](const checkpoint::Written& written) {
                std::lock_guard lock(written_mutex_);
                written_.push_back(written);
              }) {}

void Checkpoints::add(runtime::Snapshot snapshot) {
  std::lock_guard lock(mutex_);
  cuts_[snapshot.update].parts.push_back(std::move(snapshot));
}

void Checkpoints::add_update(std::int64_t update) {
  updates_ = update + 1;
  hand_over(false);
}

void Checkpoints::add(const telemetry::Evaluation& evaluation) {
  {
    std::lock_guard lock(mutex_);
    validation_losses_[evaluation.update + 1] = evaluation.loss;
  }
  hand_over(false);
}

bool Checkpoints::is_evaluated(std::int64_t update) const {
  const std::int64_t every = setup_.spec.evaluate_every;
  const bool due = every > 0 && (update % every == 0 || update == setup_.spec.updates);
  return !due || validation_losses_.contains(update);
}

// The last one waits for the end: a run that has it has all its files.
void Checkpoints::hand_over(bool at_end) {
  std::lock_guard lock(mutex_);
  for (auto at = cuts_.begin(); at != cuts_.end();) {
    const std::int64_t update = at->first;
    Cut& cut = at->second;
    const PipelineShape& shape = setup_.spec.shape;
    const bool complete = static_cast<int>(cut.parts.size()) == shape.stages * shape.owners() &&
                          updates_ >= update &&
                          (at_end || (update < setup_.spec.updates && is_evaluated(update)));
    if (!complete) {
      ++at;
      continue;
    }
    if (const auto loss = validation_losses_.find(update); loss != validation_losses_.end())
      cut.validation_loss = loss->second;
    const auto shared = std::make_shared<Cut>(std::move(cut));
    writer_.add(update, [this, update, shared] { return contents_of(update, *shared); });
    at = cuts_.erase(at);
  }
}

checkpoint::Contents Checkpoints::contents_of(std::int64_t update, Cut& cut) const {
  checkpoint::Contents contents{.model_files = model_files_};
  for (runtime::Snapshot& snapshot : cut.parts) {
    if (snapshot.await) snapshot.await(snapshot);
  }
  const std::vector<runtime::Snapshot> stages = runtime::of_whole_stages(std::move(cut.parts));
  for (const runtime::Snapshot& snapshot : stages) add_parameters(setup_.config.model, snapshot, contents);
  const optim::Counters& counters = stages.front().counters;
  checkpoint::Manifest& manifest = contents.manifest;
  manifest.update = update;
  manifest.drained = update == setup_.spec.updates && schedule::is_delayed(setup_.spec.shape.schedule);
  manifest.applied = counters.applied;
  manifest.last_scale = counters.last_scale;
  if (setup_.config.train.precision == "fp16") manifest.scaling = counters.scaling;
  manifest.sequences = position_.sequences + (update - position_.update) * setup_.config.pipeline.batch();
  manifest.validation_loss = cut.validation_loss;
  manifest.layout = layout_json(setup_.spec);
  manifest.config = config_;
  manifest.data = data_;
  manifest.written = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  sync_file(run_dir_ + "/metrics.jsonl");
  return contents;
}

std::vector<checkpoint::Written> Checkpoints::take_written() {
  hand_over(false);  // snapshots of other processes may come later than the lines
  std::lock_guard lock(written_mutex_);
  return std::exchange(written_, {});
}

void Checkpoints::finish() {
  hand_over(true);
  writer_.finish();
}

}  // namespace twobw::train
