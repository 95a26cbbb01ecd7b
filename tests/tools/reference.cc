// For the Python tests: initial weights, batches and gradients of twobw as safetensors files. Reads commands
// from standard input, each a line of words between tabs, and answers each with "done" or a sentence:
//
//   initial OUT ...                   W(0) by the parameters' names
//   batches N OUT ...                 tokens.K and the model's other inputs, K = 0..N-1
//   sequences N OUT ...               the first N sequences of data.validation, by their fields
//   gradients WEIGHTS INPUT OUT ...   logits, loss and grad.NAME of a batch with the fields in INPUT: tokens,
//                                     token_types, positions, lengths, targets, labels, values. Of a model's
//                                     folder, NAME is that there
//   weights MODEL OUT ...             a model folder as one file with our names
//
// where ... is [CONFIG.yaml] [key=value ...], as for twobw.
//
// Tokens travel as float32, which holds whole numbers up to 2^24. A tied parameter is left out of every
// file; its gradient is part of its partner's.
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <iostream>
#include <map>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "core/base/config.h"
#include "core/base/error.h"
#include "core/base/output.h"
#include "core/base/random.h"
#include "engine/checkpoint/pretrained.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/data/tokens.h"
#include "engine/device/device.h"
#include "engine/models/model.h"
#include "engine/weights/double_buffer.h"
#include "engine/weights/layout.h"
#include "planning/architecture/huggingface/model_config.h"

namespace twobw {
namespace {

using at::Tensor;
using Words = std::span<const std::string>;
using Named = std::vector<checkpoint::NamedTensor>;
using ByName = std::map<std::string, Tensor>;

// The configuration after a command's own arguments: [CONFIG] [key=value ...].
Config configuration(Words words) {
  std::string file;
  std::vector<std::string> overrides;
  for (const std::string& word : words) {
    if (word.find('=') != std::string::npos) {
      overrides.push_back(word);
    } else {
      file = word;
    }
  }
  return architecture::huggingface::load_run_config(file, overrides);
}

const Tensor& find(const ByName& tensors, const std::string& name) {
  const auto found = tensors.find(name);
  if (found == tensors.end()) fail_input("no tensor '{}' is given", name);
  return found->second;
}

void initial(Words words) {
  const Config config = configuration(words.subspan(1));
  const models::Model model = models::build(config.model);
  const weights::Layout layout(model.layers, 0, model.size());
  const Tensor flat = at::zeros({layout.size()}, at::kFloat);
  weights::initialize(layout, flat, config.train.seed);
  Named out;
  for (const weights::Parameter& parameter : layout.parameters()) {
    if (parameter.alias) continue;
    out.push_back(
        {parameter.spec.name, flat.narrow(0, parameter.offset, parameter.count).view(parameter.spec.shape)});
  }
  checkpoint::save_safetensors(words[0], out);
}

// Under their names, "token_types", and the suffix.
void add_fields(const data::Batch& batch, const std::string& suffix, Named& out) {
  for (const data::Field field : architecture::kFields) {
    if (!batch[field].defined()) continue;
    std::string name(architecture::name(field));
    std::ranges::replace(name, ' ', '_');
    out.push_back({name + suffix, batch[field].to(at::kFloat)});
  }
}

void batches(Words words) {
  const int count = std::stoi(words[0]);
  const Config config = configuration(words.subspan(2));
  const auto source = data::open_source("data.train", config.data.train, config);
  const architecture::Model model = architecture::model_of(config.model);
  const auto taken = architecture::taken_by(model, 0, static_cast<int>(model.size()));
  const int m = config.pipeline.microbatches, b = config.pipeline.microbatch;
  Named out;
  for (int k = 0; k < count; ++k) {
    const data::Draw draw{.key = random_key(config.train.seed, hash_text("data"), k / m, k % m),
                          .seed = config.train.seed,
                          .first = std::int64_t{k} * b};
    const data::Batch batch = source->random(draw, b, config.model.context, taken);
    add_fields(batch, fmt::format(".{}", k), out);
  }
  checkpoint::save_safetensors(words[1], out);
}

// The first sequences of data.validation, all that there is of them.
void sequences(Words words) {
  const Config config = configuration(words.subspan(2));
  const auto source = data::open_source("data.validation", config.data.validation, config);
  const data::Batch batch =
      source->sequential(0, std::stoi(words[0]), config.model.context, source->fields());
  Named out;
  add_fields(batch, "", out);
  checkpoint::save_safetensors(words[1], out);
}

// A layer's parameters as the runtime has them: leaves, each with a gradient to be added to. A tied one
// has its partner's weights and a gradient of its own. Gradients are in single precision.
std::vector<Tensor> leaves_of(const architecture::Layer& layer, const ByName& weights,
                              at::ScalarType compute) {
  std::vector<Tensor> leaves;
  for (const architecture::Parameter& spec : layer.parameters) {
    const Tensor& weight = find(weights, spec.tied_to.empty() ? spec.name : spec.tied_to);
    if (weight.sizes() != at::IntArrayRef(spec.shape))
      fail_input("'{}' has another shape than the model's", spec.name);
    leaves.push_back(weight.to(compute, /*non_blocking=*/false, /*copy=*/true).set_requires_grad(true));
    leaves.back().mutable_grad() = at::zeros_like(weight);
  }
  return leaves;
}

Tensor run_layers(const models::Model& model, const std::vector<std::vector<Tensor>>& leaves,
                  models::MicrobatchContext pass) {
  models::Tensors x;
  for (int layer = 0; layer < model.size(); ++layer) {
    pass.layer = layer;
    x = model.forwards[layer](leaves[layer], x, pass);
  }
  return x.front();
}

// By our names, or by those of a model's folder, which may split and transpose our tensors.
Named gradients_of(const models::Model& model, const std::vector<std::vector<Tensor>>& leaves,
                   const ModelConfig& config, bool in_folder) {
  std::vector<std::pair<architecture::Parameter, Tensor>> gradients;
  std::map<std::string, std::size_t> index;
  for (int layer = 0; layer < model.size(); ++layer) {
    const auto specs = model.layers[layer].parameters;
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const Tensor gradient = leaves[layer][i].grad();
      if (!specs[i].tied_to.empty()) {
        gradients[index.at(specs[i].tied_to)].second.add_(gradient);
        continue;
      }
      index[specs[i].name] = gradients.size();
      gradients.emplace_back(specs[i], gradient);
    }
  }
  Named out;
  for (const auto& [parameter, gradient] : gradients) {
    if (!in_folder) out.push_back({"grad." + parameter.name, gradient});
    if (!in_folder) continue;
    for (const auto& [name, stored] : checkpoint::to_stored(config, parameter, gradient))
      out.push_back({"grad." + name, stored.contiguous()});
  }
  return out;
}

ByName load_tensors(const std::string& path) {
  const checkpoint::TensorFile file(path);
  ByName tensors;
  for (const auto& [name, stored] : file.tensors()) tensors[name] = file.view(name);
  return tensors;
}

// A file with our names, or a model's folder.
ByName weights_in(const std::string& path, const ModelConfig& config, const models::Model& model) {
  if (!std::filesystem::is_directory(path)) return load_tensors(path);
  const checkpoint::Pretrained folder(config, path);
  ByName weights;
  for (const architecture::Layer& layer : model.layers) {
    for (const architecture::Parameter& parameter : layer.parameters) {
      if (!parameter.tied_to.empty()) continue;
      Tensor& target = weights[parameter.name] = at::empty(parameter.shape, at::kFloat);
      folder.read(parameter, target);
    }
  }
  return weights;
}

// 1 over what counts in the batch; labels by themselves where the model has a mean of their own for them.
void set_scales(data::BatchFields taken, data::Batch& batch) {
  using data::Field;
  const auto over = [](std::int64_t count) {
    return at::full({1}, 1.0 / static_cast<double>(count), at::kDouble);
  };
  data::Batch others = batch;
  if (taken.has(Field::LabelScale)) {
    data::Batch labels;
    std::swap(labels[Field::Labels], others[Field::Labels]);
    batch[Field::LabelScale] = over(data::count_labels(labels));
  }
  batch[Field::LossScale] = over(data::count_labels(others));
}

void gradients(Words words) {
  const ByName input = load_tensors(words[1]);
  const Config given = configuration(words.subspan(3));
  const ModelConfig& config = given.model;
  const at::ScalarType compute = device::number_format(given.train.precision);
  const models::Model model = models::build(config);
  const ByName weights = weights_in(words[0], config, model);
  std::vector<std::vector<Tensor>> leaves;
  for (const architecture::Layer& layer : model.layers) leaves.push_back(leaves_of(layer, weights, compute));

  using data::Field;
  models::MicrobatchContext pass{.training = true};
  const auto take = [&](Field field, const char* name, at::ScalarType type) {
    if (input.contains(name)) pass.batch[field] = input.at(name).to(type);
  };
  pass.batch[Field::Tokens] = find(input, "tokens").to(at::kLong);
  take(Field::TokenTypes, "token_types", at::kLong);
  take(Field::Positions, "positions", at::kLong);
  take(Field::Lengths, "lengths", at::kLong);
  const Tensor logits = run_layers(model, leaves, pass);
  take(Field::Targets, "targets", at::kLong);
  take(Field::Labels, "labels", at::kLong);
  take(Field::Values, "values", at::kDouble);
  set_scales(architecture::taken_by(model.layers, 0, model.size()), pass.batch);
  const Tensor loss = run_layers(model, leaves, pass);
  torch::autograd::backward({loss}, {});

  Named out = gradients_of(model, leaves, config, std::filesystem::is_directory(words[0]));
  out.push_back({"logits", logits.to(at::kFloat)});
  out.push_back({"loss", loss});
  checkpoint::save_safetensors(words[2], out);
}

// A model's folder as one file with our names.
void weights(Words words) {
  const ModelConfig config = configuration(words.subspan(2)).model;
  Named out;
  for (const auto& [name, tensor] : weights_in(words[0], config, models::build(config)))
    out.push_back({name, tensor});
  checkpoint::save_safetensors(words[1], out);
}

struct Command {
  const char* name;
  std::size_t arguments;  // before the configuration
  void (*run)(Words);
};

constexpr Command kCommands[] = {{"initial", 1, initial},
                                 {"batches", 2, batches},
                                 {"sequences", 2, sequences},
                                 {"gradients", 3, gradients},
                                 {"weights", 2, weights}};

void run(Words words) {
  for (const Command& command : kCommands) {
    if (words.empty() || words[0] != command.name) continue;
    if (words.size() - 1 < command.arguments) {
      fail_input("'{}' takes {} arguments before the configuration", command.name, command.arguments);
    }
    return command.run(words.subspan(1));
  }
  fail_input("the commands are initial, batches, sequences, gradients and weights");
}

}  // namespace
}  // namespace twobw

int main() {
  twobw::device::initialize();
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream text(line);
    std::vector<std::string> words;
    for (std::string word; std::getline(text, word, '\t');) words.push_back(word);
    try {
      twobw::run(words);
      std::cout << "done" << std::endl;
    } catch (const std::exception& error) {
      std::cout << error.what() << std::endl;
    }
  }
  twobw::leave(0);
}
