#include "train/text_embedder.h"

#include <ATen/core/grad_mode.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <span>

#include "architecture/bert.h"
#include "architecture/huggingface/model_config.h"
#include "base/error.h"
#include "base/text_file.h"
#include "checkpoint/newest_model.h"
#include "checkpoint/safetensors.h"
#include "tokenizer/load.h"

namespace twobw::train {
namespace {

using tokenizer::Id;

ModelConfig embedding_model(const std::string& path) {
  const std::string folder = checkpoint::newest_model(path).folder;
  ModelConfig config = architecture::huggingface::read_model(folder).model;
  if (config.family != "bert")
    fail_input("'{}' is a {}; embeddings of texts are made by bert alone", folder, config.family);
  config.from = folder;
  return config;
}

std::vector<at::Tensor> read_below_head(const ModelConfig& config, const architecture::Model& model,
                                        int layers) {
  const checkpoint::Pretrained weights(config);
  weights.check(model);
  std::vector<at::Tensor> parameters;
  for (int layer = 0; layer < layers; ++layer) {
    for (const architecture::Parameter& parameter : model[static_cast<std::size_t>(layer)].parameters) {
      parameters.push_back(at::empty(parameter.shape, at::kFloat));
      weights.read(parameter, parameters.back());
    }
  }
  return parameters;
}

// Their numbers, short texts first, so that those computed together have little padding.
std::vector<std::size_t> by_length(const std::vector<std::vector<Id>>& sequences) {
  std::vector<std::size_t> order(sequences.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return sequences[i].size(); });
  return order;
}

}  // namespace

TextEmbedder::TextEmbedder(const std::string& path, const EmbedOptions& options)
    : options_(options),
      config_(embedding_model(path)),
      tokenizer_(tokenizer::load_tokenizer(options.tokenizer.empty() ? config_.from : options.tokenizer)),
      frame_(*tokenizer_),
      model_(models::build(config_)),
      layers_(architecture::layers_below_head(config_)),
      parameters_(read_below_head(config_, model_.layers, layers_)) {
  const int least = static_cast<int>(frame_.size(1)) + 1;
  if (options_.context == 0) options_.context = config_.positions;
  if (options_.context < least || options_.context > config_.positions) {
    fail_input("--context is {}; it must be from {} to {}, the positions of '{}'", options_.context, least,
               config_.positions, config_.from);
  }
  if (tokenizer_->vocab_size() > config_.vocab) {
    fail_input("the tokenizer has {} tokens, but the model in '{}' knows {}", tokenizer_->vocab_size(),
               config_.from, config_.vocab);
  }
}

std::vector<Id> TextEmbedder::encode(const std::string& text) const {
  std::vector<Id> words;
  tokenizer_->encode(text, words);
  frame_.cut(words, static_cast<std::size_t>(options_.context) - frame_.size(1));
  std::vector<Id> ids = frame_.before;
  ids.insert(ids.end(), words.begin(), words.end());
  ids.insert(ids.end(), frame_.after.begin(), frame_.after.end());
  if (ids.empty()) ids.push_back(frame_.pad);  // of a tokenizer that puts nothing around an empty text
  return ids;
}

at::Tensor TextEmbedder::run(const std::vector<std::vector<Id>>& sequences) const {
  using models::Field;
  const std::size_t longest = std::ranges::max(sequences, {}, &std::vector<Id>::size).size();
  const std::int64_t count = std::ssize(sequences), places = static_cast<std::int64_t>(longest);
  models::Pass pass;
  at::Tensor& tokens = pass.batch[Field::Tokens] = at::full({count, places}, frame_.pad, at::kLong);
  at::Tensor& lengths = pass.batch[Field::Lengths] = at::empty({count}, at::kLong);
  pass.batch[Field::TokenTypes] = at::zeros({count, places}, at::kLong);
  for (std::int64_t row = 0; row < count; ++row) {
    const std::vector<Id>& ids = sequences[static_cast<std::size_t>(row)];
    std::ranges::copy(ids, tokens.mutable_data_ptr<std::int64_t>() + row * places);
    lengths.mutable_data_ptr<std::int64_t>()[row] = std::ssize(ids);
  }
  const models::Tensors hidden = models::run_layers(model_, 0, layers_, parameters_, {}, pass);
  const at::Tensor pooled = models::pool(options_.pooling, hidden.front(), lengths);
  constexpr double kLeastNorm = 1e-12;  // as torch.nn.functional.normalize
  return options_.normalize ? pooled / pooled.norm(2, {1}, /*keepdim=*/true).clamp_min(kLeastNorm) : pooled;
}

at::Tensor TextEmbedder::embed(const std::vector<std::string>& texts) const {
  at::NoGradGuard no_grad;
  std::vector<std::vector<Id>> sequences;
  for (const std::string& text : texts) sequences.push_back(encode(text));
  const std::vector<std::size_t> order = by_length(sequences);
  const at::Tensor embeddings = at::empty({std::ssize(texts), config_.width}, at::kFloat);
  for (std::size_t begin = 0; begin < order.size();) {
    const std::size_t end = std::min(order.size(), begin + static_cast<std::size_t>(options_.batch));
    std::vector<std::vector<Id>> chosen;
    for (std::size_t i = begin; i < end; ++i) chosen.push_back(sequences[order[i]]);
    const at::Tensor rows = run(chosen);
    for (std::size_t i = begin; i < end; ++i)
      embeddings[static_cast<std::int64_t>(order[i])].copy_(rows[static_cast<std::int64_t>(i - begin)]);
    begin = end;
  }
  return embeddings;
}

void check_embeddings_path(const std::string& option, const std::string& path) {
  if (!path.ends_with(".safetensors") && !path.ends_with(".jsonl"))
    fail_input("{} is '{}'; it must end in .safetensors or .jsonl", option, path);
  check_writable(option, path);
}

void write_embeddings(const std::string& path, const at::Tensor& embeddings) {
  if (path.ends_with(".safetensors"))
    return checkpoint::save_safetensors(path, {{.name = "embeddings", .tensor = embeddings}});
  const at::Tensor rows = embeddings.contiguous();
  const std::int64_t width = rows.size(1);
  std::string text;
  for (std::int64_t row = 0; row < rows.size(0); ++row) {
    const std::span numbers(rows.const_data_ptr<float>() + row * width, static_cast<std::size_t>(width));
    text += fmt::format("{{\"embedding\": [{}]}}\n", fmt::join(numbers, ", "));
  }
  write_text(path, text);
}

}  // namespace twobw::train
