#include "core/base/config_schema.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

#include "core/base/text.h"

namespace twobw {

Key Key::with(std::function<Complaint(const Config&)> rule) && {
  check = [first = std::move(check), rule = std::move(rule)](const Config& config) {
    const Complaint complaint = first(config);
    return complaint.empty() ? rule(config) : complaint;
  };
  return std::move(*this);
}

const std::vector<Section>& sections() {
  static const std::vector<Section> all = {
      {"model", "Architecture of the model, and its first weights."},
      {"data", "Training and validation data, and the tokenizer."},
      {"pipeline", "Partition of the model, and schedule of the microbatches."},
      {"optimizer", "Optimizer, learning rate and weight decay."},
      {"train", "Length of the run, precision and evaluation."},
      {"checkpoint", "Checkpoints to resume from."},
      {"network", "Connections between the processes of a run that a launcher starts."},
      {"", "Devices and folders of the run."},
  };
  return all;
}

std::string section_of(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return std::string(path.substr(0, dot == std::string_view::npos ? 0 : dot));
}

std::string name_of(std::string_view path) {
  return std::string(path.substr(path.rfind('.') + 1));
}

const Key* find_key(std::string_view path) {
  const auto key = std::ranges::find(schema(), path, &Key::path);
  return key == schema().end() ? nullptr : &*key;
}

bool is_section(std::string_view path) {
  return !path.empty() && std::ranges::find(sections(), path, &Section::name) != sections().end();
}

namespace {

// Keys of former versions, with their replacements.
constexpr std::pair<std::string_view, std::string_view> kFormerKeys[] = {
    {"pipeline.guard_updates",
     "remove it: a warning of pipeline.guard names the pipeline.sync_updates to resume with"},
    {"pipeline.second_gradient", "use pipeline.double_buffer_gradients"},
    {"pipeline.late_tie", "use pipeline.defer_tied_update"},
    {"pipeline.slack", "use pipeline.step_slack"},
    {"network.arrival", "use network.join_timeout"},
    {"network.silence", "use network.heartbeat_timeout"},
    {"model.labels", "use model.num_labels"},
    {"model.positions", "use model.max_positions"},
};

}  // namespace

std::string advice_for(std::string_view unknown) {
  for (const auto& [key, advice] : kFormerKeys)
    if (key == unknown) return std::string(advice);
  const std::string section = section_of(unknown), name = name_of(unknown);
  std::vector<std::string> known, siblings;
  for (const Section& each : sections()) {
    if (!each.name.empty()) known.push_back(each.name);
  }
  if (!is_section(section)) siblings = known;
  for (const Key& key : schema()) {
    known.push_back(key.path);
    if (section_of(key.path) == (is_section(section) ? section : "")) siblings.push_back(name_of(key.path));
  }
  // Compares the name before the section, so that a key in the wrong section is found too.
  auto distance = [&](const std::string& path) {
    return std::tuple(edit_distance(name, name_of(path)), edit_distance(unknown, path));
  };
  const std::string best = std::ranges::min(known, {}, distance);
  if (is_near(name, name_of(best))) return fmt::format("did you mean '{}'?", best);
  const std::string where = is_section(section) ? section : "the top level";
  return fmt::format("{} has {}", where, fmt::join(siblings, ", "));
}

Complaint heads_fit(const Config& config) {
  const ModelConfig& model = config.model;
  if (std::int64_t{model.heads} * model.head_size <= kWidestHidden) return {};
  return fmt::format("be at most {} with {} heads", kWidestHidden / model.heads, model.heads);
}

Complaint batch_is_countable(const Config& config) {
  const PipelineConfig& pipeline = config.pipeline;
  const std::int64_t sequences =
      std::int64_t{pipeline.microbatch} * pipeline.replicas * pipeline.microbatches;
  if (sequences <= kLargestBatch) return {};
  return fmt::format(
      "make an update of at most {} sequences; with microbatches of {} on {} replica{} it has {}",
      kLargestBatch, pipeline.microbatch, pipeline.replicas, pipeline.replicas > 1 ? "s" : "", sequences);
}

Complaint tokens_are_countable(const Config& config) {
  const std::int64_t tokens = std::int64_t{config.pipeline.batch()} * config.model.context;
  const std::int64_t most = std::numeric_limits<std::int64_t>::max() / tokens;
  if (config.train.updates <= most) return {};
  return fmt::format("be at most {} with {} tokens in an update", most, tokens);
}

Complaint split_is_countable(const Config& config) {
  constexpr int kMost = 100 * kMostBlocks;  // a block has several layers
  const auto& split = config.pipeline.split;
  if (std::accumulate(split.begin(), split.end(), std::int64_t{0}) <= kMost) return {};
  return fmt::format("cover at most {} layers", kMost);
}

}  // namespace twobw
