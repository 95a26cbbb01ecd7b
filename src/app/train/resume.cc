#include "app/train/resume.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <limits>
#include <map>
#include <ranges>
#include <set>
#include <utility>

#include "app/train/config_digest.h"
#include "core/base/config_schema.h"
#include "core/base/error.h"
#include "core/base/text_file.h"
#include "engine/checkpoint/pretrained.h"
#include "engine/checkpoint/store.h"
#include "engine/weights/layout.h"
#include "planning/architecture/families.h"
#include "planning/architecture/huggingface/names.h"

namespace twobw::train {

namespace fs = std::filesystem;

namespace {

// Keys of the resume itself, which the next resume need not repeat.
bool is_about_resuming(const std::string& path) {
  static const std::set<std::string> keys = {"resume", "run_dir", "data.changed"};
  return keys.contains(path);
}

// Sections and keys that determine weights and state.
bool must_stay(const std::string& path) {
  static const std::set<std::string> sections = {"model", "data"};
  static const std::set<std::string> keys = {"train.seed",      "train.precision", "optimizer.name",
                                             "optimizer.betas", "optimizer.eps",   "optimizer.momentum",
                                             "optimizer.groups"};
  return (sections.contains(section_of(path)) || keys.contains(path)) && !is_about_resuming(path);
}

ResumePoint point_of(checkpoint::Manifest manifest, const std::string& folder) {
  ResumePoint point{.folder = folder, .manifest = std::move(manifest), .checksum = manifest_checksum(folder)};
  const Json& layout = point.manifest.layout;
  if (layout.contains("split") && layout["split"].is_array())
    point.split = layout["split"].get<std::vector<int>>();
  if (layout.contains("replicas") && layout["replicas"].is_number_integer())
    point.replicas = layout["replicas"].get<int>();
  return point;
}

void check_incomplete(std::int64_t update, const Config& config, const std::string& folder) {
  if (update < config.train.updates) return;
  fail_input(
      "train.updates is {}, but the checkpoint '{}' has {} updates already; to resume it must be at least {}",
      config.train.updates, folder, update, update + 1);
}

std::vector<std::string> allowed_changes(const ResumePoint& point, const Config& config) {
  const std::vector<std::string> changes = find_changes(point.manifest.data);
  if (!changes.empty() && config.data.changed != "allow")
    fail_input("{}; restore it to resume from '{}', or set data.changed=allow", changes.front(),
               point.folder);
  return changes;
}

// The newest checkpoint whose update is below `limit`.
std::optional<ResumePoint> newest_below(std::int64_t limit, const Config& config,
                                        std::vector<std::string> damage) {
  const std::string store = checkpoint::store_of(resumed_run(config));
  const std::vector<checkpoint::Entry> entries = checkpoint::list(store);
  for (const checkpoint::Entry& entry : entries | std::views::reverse) {
    if (entry.update >= limit) continue;
    std::optional<ResumePoint> point;
    try {
      point = point_of(checkpoint::read_manifest(entry.folder), entry.folder);
      // Only an undamaged one proves that the run is complete.
      if (point->manifest.update >= config.train.updates) checkpoint::load(entry.folder);
    } catch (const InputError& error) {
      damage.emplace_back(error.what());
      continue;
    }
    check_unchanged(config_from_text(point->manifest.config, entry.folder), config, entry.folder);
    check_incomplete(point->manifest.update, config, entry.folder);
    point->changes = allowed_changes(*point, config);
    point->damage = std::move(damage);
    return point;
  }
  if (config.resume != "auto" || !damage.empty()) {
    fail_input("resume is {}, but '{}' has no checkpoint that can be loaded{}", config.resume, store,
               damage.empty() ? "" : "; " + damage.front());
  }
  return std::nullopt;
}

// The newest checkpoint of the run whose manifest can be read.
std::optional<ResumePoint> newest_record(const std::string& run) {
  for (const checkpoint::Entry& entry : checkpoint::list(checkpoint::store_of(run)) | std::views::reverse) {
    try {
      return point_of(checkpoint::read_manifest(entry.folder), entry.folder);
    } catch (const InputError&) {
      continue;  // find_resume_point names it
    }
  }
  return std::nullopt;
}

// A plan replaces the keys that describe the pipeline.
bool is_planned(const std::string& path, const Config& config) {
  return config.plan == "auto" && (section_of(path) == "pipeline" || path == "devices");
}

// The file in the run's folder may have been edited, or written by a run that ended before its first
// checkpoint.
void check_file_agrees(const std::string& run, const Config& saved, const Config& config,
                       const std::vector<std::string>& overrides, const std::string& folder) {
  const Config in_file = load_config_of_run(run, {});
  for (const Key& key : schema()) {
    const std::string ours = key.write(in_file), theirs = key.write(saved);
    if (ours == theirs || is_about_resuming(key.path) || is_planned(key.path, config) ||
        is_set(key.path, "", overrides))
      continue;
    const std::string both = fmt::format("{} is {} in '{}/config.yaml', but {} in the checkpoint '{}'",
                                         key.path, ours, run, theirs, folder);
    if (must_stay(key.path)) fail_input("{}; to resume it must be the same: correct the file", both);
    fail_input("{}; set it on the command line: {}={} or {}={}", both, key.path, ours, key.path, theirs);
  }
}

// Names of the parameters of these stages, and of those they are tied to.
std::set<std::string> names_of_stages(const Config& config, const std::vector<int>& stages) {
  const architecture::Model model = architecture::model_of(config.model);
  std::set<std::string> names;
  for (const int stage : stages) {
    for (int layer = config.pipeline.first_layer(stage); layer < config.pipeline.last_layer(stage); ++layer) {
      for (const architecture::Parameter& parameter : model[static_cast<std::size_t>(layer)].parameters) {
        names.insert(parameter.name);
        if (!parameter.tied_to.empty()) names.insert(parameter.tied_to);
      }
    }
  }
  return names;
}

// The parameters that have weights of their own and one of the names.
std::vector<architecture::Parameter> own_parameters(const ModelConfig& model,
                                                    const std::set<std::string>& names) {
  std::vector<architecture::Parameter> parameters;
  for (const architecture::Layer& layer : architecture::model_of(model)) {
    std::ranges::copy_if(layer.parameters, std::back_inserter(parameters),
                         [&](const architecture::Parameter& parameter) {
                           return parameter.tied_to.empty() && names.contains(parameter.name);
                         });
  }
  return parameters;
}

std::set<std::string> stored_names(const ModelConfig& model,
                                   const std::vector<architecture::Parameter>& parameters) {
  std::set<std::string> names;
  for (const architecture::Parameter& parameter : parameters) {
    for (const auto& piece : architecture::huggingface::pieces_of(model, parameter)) names.insert(piece.name);
  }
  return names;
}

// The weights by our names.
std::map<std::string, at::Tensor> weights_of(const checkpoint::Loaded& loaded, const ModelConfig& model,
                                             const std::vector<architecture::Parameter>& parameters,
                                             const std::string& folder) {
  const auto find = [&](const std::string& name) {
    const auto found = loaded.model.find(name);
    if (found == loaded.model.end()) fail_input("the checkpoint '{}' has no '{}'", folder, name);
    return found->second;
  };
  std::map<std::string, at::Tensor> weights;
  for (const architecture::Parameter& parameter : parameters) {
    at::Tensor& target = weights[parameter.name] = at::empty(parameter.shape, at::kFloat);
    checkpoint::from_stored(model, parameter, find, target);
  }
  return weights;
}

// Splits a name in the state, "moment1/NAME", into the buffer and the parameter; both empty for any other
// name.
std::pair<std::string, std::string> state_name(const std::string& name) {
  const std::size_t slash = name.find('/');
  if (slash == std::string::npos) return {};
  return {name.substr(0, slash), name.substr(slash + 1)};
}

using NamesByBuffer = std::map<std::string, std::set<std::string>>;

NamesByBuffer state_names(const checkpoint::Manifest& manifest) {
  NamesByBuffer names;
  for (const checkpoint::FileRecord& file : manifest.files) {
    for (const auto& [name, sum] : file.tensors) {
      const auto [buffer, parameter] = state_name(name);
      if (!buffer.empty()) names[buffer].insert(parameter);
    }
  }
  return names;
}

// Whether every parameter of the layout is there.
bool covers(const NamesByBuffer& names, const std::string& buffer, const weights::Layout& layout) {
  const auto found = names.find(buffer);
  if (found == names.end()) return false;
  return std::ranges::all_of(layout.parameters(), [&](const weights::Parameter& parameter) {
    return parameter.alias || found->second.contains(parameter.spec.name) ||
           found->second.contains(parameter.spec.tied_to);
  });
}

}  // namespace

std::string manifest_checksum(const std::string& folder) {
  return checkpoint::checksum(read_text("checkpoint", folder + "/" + checkpoint::kManifest));
}

std::string resumed_run(const Config& config) {
  return config.resume == "auto" ? config.run_dir : config.resume;
}

bool is_branch(const Config& config) {
  if (config.resume == "none" || config.resume == "auto") return false;
  std::error_code missing;
  return !fs::equivalent(config.resume, config.run_dir, missing);
}

Config config_of_run(const std::string& run, const std::vector<std::string>& overrides) {
  const std::optional<ResumePoint> newest = newest_record(run);
  Config config;
  if (newest) {
    config = config_from_text(newest->manifest.config, newest->folder, overrides);
    std::error_code unknown;
    if (fs::exists(run + "/config.yaml", unknown))
      check_file_agrees(run, config_from_text(newest->manifest.config, newest->folder), config, overrides,
                        newest->folder);
  } else {
    config = load_config_of_run(run, overrides);
  }
  if (!is_set("run_dir", "", overrides)) config.run_dir = run;
  return config;
}

void check_unchanged(const Config& saved, const Config& now, const std::string& folder) {
  for (const Key& key : schema()) {
    if (!must_stay(key.path) || key.write(saved) == key.write(now)) continue;
    fail_input(
        "{} is {}, but the checkpoint '{}' is of a run with {}; to resume it must be the same (optimizer.lr, "
        "train.updates, devices and the section pipeline may change)",
        key.path, key.write(now), folder, key.write(saved));
  }
}

std::optional<ResumePoint> find_resume_point(const Config& config) {
  if (config.resume == "none") return std::nullopt;
  std::error_code unknown;
  if (config.resume != "auto" && !fs::is_directory(config.resume, unknown))
    fail_input("resume is '{}', which is not the folder of a run", config.resume);
  return newest_below(std::numeric_limits<std::int64_t>::max(), config, {});
}

std::string describe_change(const ResumePoint& point, const PipelineShape& now, int processes) {
  const auto layout = [](std::ptrdiff_t stages, int replicas) {
    return fmt::format("{} stage{} x {} replica{}", stages, stages == 1 ? "" : "s", replicas,
                       replicas == 1 ? "" : "s");
  };
  const std::string is = layout(now.stages, now.replicas),
                    was = layout(std::ssize(point.split), point.replicas);
  return fmt::format("planned again for {} process{}: {}, {}", processes, processes == 1 ? "" : "es", is,
                     is == was ? "as in the checkpoint"
                               : fmt::format("where the checkpoint was saved with {} x {}",
                                             point.split.size(), point.replicas));
}

ResumePoint find_point_before(const ResumePoint& point, const Config& config, const std::string& problem) {
  std::vector<std::string> damage = point.damage;
  damage.push_back(problem);
  return *newest_below(point.manifest.update, config, std::move(damage));
}

std::vector<std::string> warnings_of(const ResumePoint& point) {
  std::vector<std::string> lines;
  for (const std::string& problem : point.damage) lines.push_back("warning: " + problem);
  if (!lines.empty()) lines.back() += "; the checkpoint before it is taken";
  for (const std::string& change : point.changes) lines.push_back("warning: " + change);
  return lines;
}

std::shared_ptr<runtime::Restored> read_stages(const std::string& folder, const Config& config,
                                               const std::vector<int>& stages) {
  const std::set<std::string> names = names_of_stages(config, stages);
  const std::vector<architecture::Parameter> parameters = own_parameters(config.model, names);
  const std::set<std::string> stored = stored_names(config.model, parameters);
  const checkpoint::Loaded loaded = checkpoint::load(
      folder, {.model = [&](const std::string& name) { return stored.contains(name); },
               .state = [&](const std::string& name) { return names.contains(state_name(name).second); }});
  const checkpoint::Manifest& manifest = loaded.manifest;
  auto restored = std::make_shared<runtime::Restored>();
  restored->update = manifest.update;
  restored->sequences = manifest.sequences;
  restored->counters = {.applied = manifest.applied, .last_scale = static_cast<float>(manifest.last_scale)};
  if (manifest.scaling) {
    restored->counters.scaling = *manifest.scaling;
    restored->counters.scaling.window = config.train.loss_scale_window;
  }
  restored->buffers["weights"] = weights_of(loaded, config.model, parameters, folder);
  for (const auto& [name, tensor] : loaded.state) {
    const auto [buffer, parameter] = state_name(name);
    restored->buffers[buffer][parameter] = tensor;
  }
  return restored;
}

void begin_at(const checkpoint::Manifest& manifest, const architecture::Model& layers, schedule::Spec& spec) {
  const NamesByBuffer names = state_names(manifest);
  spec.first_batch = manifest.update;
  spec.begins_drained = false;
  const bool predicted = schedule::is_predicted(spec, spec.first_batch);
  for (int stage = 0; stage < spec.shape.stages; ++stage) {
    const weights::Layout layout(layers, spec.shape.first_layer(stage), spec.shape.last_layer(stage));
    const std::size_t older = schedule::older_generations(spec, stage, spec.first_batch).size();
    for (std::size_t behind = 1; behind <= older; ++behind) {
      const std::string buffer = predicted ? "predicted" : fmt::format("before{}", behind);
      if (covers(names, buffer, layout)) continue;
      spec.begins_drained = true;
      return;
    }
  }
}

}  // namespace twobw::train
