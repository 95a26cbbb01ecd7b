#include "app/train/restore.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "engine/checkpoint/load.h"
#include "engine/checkpoint/pretrained.h"
#include "engine/weights/layout.h"
#include "planning/architecture/families.h"
#include "planning/architecture/huggingface/names.h"

namespace twobw::train {
namespace {

// Of the parameters of these stages, and of what they are tied to.
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

// Of a name in the state, "moment1/NAME": what it is, and of which parameter. Empty: it is nothing of ours.
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
  const bool predicted = schedule::predicts(spec, spec.first_batch);
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
