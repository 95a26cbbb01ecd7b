#include "train/resume.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <ranges>
#include <set>

#include "architecture/families.h"
#include "base/config_schema.h"
#include "base/error.h"
#include "checkpoint/store.h"
#include "checkpoint/translate.h"
#include "weights/layout.h"

namespace twobw::train {
namespace {

// What the weights and the state are of. Whole sections, and single keys.
bool must_stay(const std::string& path) {
  static const std::set<std::string> sections = {"model", "data"};
  static const std::set<std::string> keys = {"train.seed",
                                             "train.precision",
                                             "optimizer.name",
                                             "optimizer.betas",
                                             "optimizer.eps",
                                             "optimizer.momentum",
                                             "optimizer.groups",
                                             "optimizer.extrapolate_weights",
                                             "optimizer.extrapolate_update"};
  return sections.contains(section_of(path)) || keys.contains(path);
}

// The weights by our names.
std::map<std::string, at::Tensor> weights_of(const checkpoint::Loaded& loaded, const ModelConfig& model,
                                             const std::string& folder) {
  const auto find = [&](const std::string& name) {
    const auto found = loaded.model.find(name);
    if (found == loaded.model.end()) fail_input("the checkpoint '{}' has no '{}'", folder, name);
    return found->second;
  };
  std::map<std::string, at::Tensor> weights;
  for (const architecture::Layer& layer : architecture::model_of(model)) {
    for (const architecture::Parameter& parameter : layer.parameters) {
      if (!parameter.tied_to.empty()) continue;
      at::Tensor& target = weights[parameter.name] = at::empty(parameter.shape, at::kFloat);
      checkpoint::from_stored(model, parameter, find, target);
    }
  }
  return weights;
}

// "moment1/NAME" goes under moment1, the rest is the parameter's name.
std::shared_ptr<runtime::Restored> restored_from(const checkpoint::Loaded& loaded, const Config& config,
                                                 const std::string& folder) {
  auto restored = std::make_shared<runtime::Restored>();
  restored->update = loaded.manifest.update;
  restored->sequences = loaded.manifest.sequences;
  restored->counters = {.applied = loaded.manifest.applied,
                        .last_scale = static_cast<float>(loaded.manifest.last_scale)};
  if (loaded.manifest.scaling) {
    restored->counters.scaling = *loaded.manifest.scaling;
    restored->counters.scaling.window = config.train.loss_scale_window;
  }
  restored->buffers["weights"] = weights_of(loaded, config.model, folder);
  for (const auto& [name, tensor] : loaded.state) {
    const std::size_t slash = name.find('/');
    if (slash != std::string::npos) restored->buffers[name.substr(0, slash)][name.substr(slash + 1)] = tensor;
  }
  return restored;
}

ResumePoint point_of(const checkpoint::Loaded& loaded, const Config& config, const std::string& folder) {
  ResumePoint point{.folder = folder, .restored = restored_from(loaded, config, folder)};
  const Json& layout = loaded.manifest.layout;
  if (layout.contains("split") && layout["split"].is_array())
    point.split = layout["split"].get<std::vector<int>>();
  if (layout.contains("replicas") && layout["replicas"].is_number_integer())
    point.replicas = layout["replicas"].get<int>();
  return point;
}

void check_goes_on(std::int64_t update, const Config& config, const std::string& folder) {
  if (update < config.train.updates) return;
  fail_input(
      "train.updates is {}, but the checkpoint '{}' has {} updates already; to resume it must be at least {}",
      config.train.updates, folder, update, update + 1);
}

// Whether every parameter of the layout is there.
bool covers(const runtime::Restored& restored, const std::string& buffer, const weights::Layout& layout) {
  const auto found = restored.buffers.find(buffer);
  if (found == restored.buffers.end()) return false;
  return std::ranges::all_of(layout.parameters(), [&](const weights::Parameter& parameter) {
    return parameter.alias || found->second.contains(parameter.spec.name) ||
           found->second.contains(parameter.spec.tied_to);
  });
}

}  // namespace

Config continued(const Config& config) {
  Config result = config;
  if (config.resume != "none" && config.resume != "auto") result.run_dir = config.resume;
  return result;
}

void check_unchanged(const Config& saved, const Config& now, const std::string& folder) {
  for (const Key& key : schema()) {
    if (!must_stay(key.path) || key.write(saved) == key.write(now)) continue;
    fail_input(
        "{} is {}, but the checkpoint '{}' is of a run with {}; to resume it must be the same (optimizer.lr, "
        "train.updates, devices and what stands under pipeline may change)",
        key.path, key.write(now), folder, key.write(saved));
  }
}

std::optional<ResumePoint> find_resume_point(const Config& config) {
  if (config.resume == "none") return std::nullopt;
  const std::string store = checkpoint::store_of(config.run_dir);
  if (config.resume != "auto" && !std::filesystem::is_directory(config.run_dir))
    fail_input("resume is '{}', which is not the folder of a run", config.resume);
  std::vector<std::string> said;
  const std::vector<checkpoint::Entry> entries = checkpoint::list(store);
  for (const checkpoint::Entry& entry : entries | std::views::reverse) {
    std::optional<checkpoint::Loaded> loaded;
    try {
      loaded = checkpoint::load(entry.folder);
    } catch (const InputError& error) {
      said.push_back(fmt::format("warning: {}; the checkpoint before it is taken", error.what()));
      continue;
    }
    check_unchanged(config_from_text(loaded->manifest.config, entry.folder), config, entry.folder);
    check_goes_on(loaded->manifest.update, config, entry.folder);
    ResumePoint point = point_of(*loaded, config, entry.folder);
    point.said = said;
    return point;
  }
  if (config.resume != "auto" || !said.empty()) {
    fail_input("resume is {}, but '{}' has no checkpoint that can be loaded{}", config.resume, store,
               said.empty() ? "" : "; " + said.front().substr(std::string("warning: ").size()));
  }
  return std::nullopt;
}

ResumePoint resume_from(const Config& config, const std::string& folder) {
  if (!std::filesystem::is_directory(folder)) {
    fail_input(
        "the checkpoint '{}' is not there for this process; run_dir must be on a file system that all hosts "
        "of the run share",
        folder);
  }
  return point_of(checkpoint::load(folder), config, folder);
}

void keep_stages(runtime::Restored& restored, const models::Model& model, const PipelineShape& shape,
                 const std::vector<int>& stages) {
  std::set<std::string> kept;
  for (const int stage : stages) {
    const weights::Layout layout(model.layers, shape.first_layer(stage), shape.last_layer(stage));
    for (const weights::Parameter& parameter : layout.parameters()) {
      kept.insert(parameter.spec.name);
      kept.insert(parameter.spec.tied_to);
    }
  }
  for (auto& [buffer, tensors] : restored.buffers)
    std::erase_if(tensors, [&](const auto& tensor) { return !kept.contains(tensor.first); });
}

std::string describe_change(const ResumePoint& point, const PipelineShape& now, int processes) {
  return fmt::format(
      "planned again for {} process{}: {} stage{} x {} replica{}, where the checkpoint was saved with {} x "
      "{}",
      processes, processes == 1 ? "" : "es", now.stages, now.stages == 1 ? "" : "s", now.replicas,
      now.replicas == 1 ? "" : "s", point.split.size(), point.replicas);
}

void begin_at(const runtime::Restored& restored, const models::Model& model, schedule::Spec& spec) {
  spec.first_batch = restored.update;
  spec.begins_drained = false;
  const bool predicted = schedule::predicts(spec, spec.first_batch);
  for (int stage = 0; stage < spec.shape.stages; ++stage) {
    const weights::Layout layout(model.layers, spec.shape.first_layer(stage), spec.shape.last_layer(stage));
    const std::size_t older = schedule::older_generations(spec, stage, spec.first_batch).size();
    for (std::size_t behind = 1; behind <= older; ++behind) {
      const std::string buffer = predicted ? "predicted" : fmt::format("before{}", behind);
      if (covers(restored, buffer, layout)) continue;
      spec.begins_drained = true;
      return;
    }
  }
}

}  // namespace twobw::train
