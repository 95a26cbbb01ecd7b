// twobw embed: one vector for each text of a file.
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "app/cli/engine/commands.h"
#include "app/cli/json_output.h"
#include "core/base/error.h"
#include "core/base/text_file.h"
#include "engine/checkpoint/pretrained.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/checkpoint/store.h"
#include "engine/data/masking.h"
#include "engine/device/device.h"
#include "engine/models/model.h"
#include "engine/models/ops.h"
#include "planning/architecture/families.h"
#include "planning/architecture/huggingface/model_config.h"
#include "text/corpus/records.h"
#include "text/tokenizer/tokenizer.h"

namespace twobw::cli {
namespace {

using tokenizer::Id;

enum class Pooling { Mean, Cls, Last };

const std::map<std::string, Pooling> kPoolings = {
    {"mean", Pooling::Mean}, {"cls", Pooling::Cls}, {"last", Pooling::Last}};

struct EmbedOptions {
  std::string folder, texts, out, field = "text";
  std::string tokenizer;  // empty: the folder's
  Pooling pooling = Pooling::Mean;
  bool normalize = false;  // to unit length
  int context = 0;         // tokens of a text, [CLS] and [SEP] included; 0: as many as positions
  int batch = 32;          // texts computed at a time
  bool json = false;
};

// Hidden states [b, T, w] to [b, w]; `lengths` [b], int64: tokens before the padding, whose states may be
// NaN.
at::Tensor pool(Pooling pooling, const at::Tensor& hidden, const at::Tensor& lengths) {
  if (pooling == Pooling::Cls) return hidden.select(1, 0).contiguous();
  if (pooling == Pooling::Last) return models::ops::last_token(hidden, lengths);
  const at::Tensor counts = lengths.unsqueeze(1);  // [b, 1]
  const at::Tensor padding = at::arange(hidden.size(1), lengths.options()).ge(counts).unsqueeze(2);
  return hidden.masked_fill(padding, 0).sum(1) / counts;
}

// Embeddings of texts: a BERT's hidden states below its head, pooled to one vector per text.
class TextEmbedder {
 public:
  explicit TextEmbedder(const EmbedOptions& options);

  // One row per text [n, width], float32. Texts are truncated to the context.
  at::Tensor embed(const std::vector<std::string>& texts) const;

 private:
  std::vector<Id> encode(const std::string& text) const;
  // `sequences` are padded to the longest.
  at::Tensor run(const std::vector<std::vector<Id>>& sequences) const;

  EmbedOptions options_;
  ModelConfig config_;
  std::unique_ptr<tokenizer::Tokenizer> tokenizer_;
  data::TextFrame frame_;
  models::Model model_;
  int layers_;                          // below the head
  std::vector<at::Tensor> parameters_;  // of these
};

ModelConfig embedding_model(const std::string& path) {
  const std::string folder = checkpoint::newest_model(path).folder;
  ModelConfig config = architecture::huggingface::read_model(folder).model;
  if (config.family != "bert") fail_input("'{}' is a {}; only bert embeds texts", folder, config.family);
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

TextEmbedder::TextEmbedder(const EmbedOptions& options)
    : options_(options),
      config_(embedding_model(options.folder)),
      tokenizer_(tokenizer::load_tokenizer(options.tokenizer.empty() ? config_.from : options.tokenizer)),
      frame_(*tokenizer_),
      model_(models::build(config_)),
      layers_(architecture::layers_below_head(config_)),
      parameters_(read_below_head(config_, model_.layers, layers_)) {
  const int least = static_cast<int>(frame_.size(1)) + 1;
  if (options_.context == 0) options_.context = config_.max_positions;
  if (options_.context < least || options_.context > config_.max_positions) {
    fail_input("--context is {}; it must be from {} to {}, the positions of '{}'", options_.context, least,
               config_.max_positions, config_.from);
  }
  if (tokenizer_->vocab_size() > config_.vocab) {
    fail_input("the tokenizer has {} tokens, but the model in '{}' has {}", tokenizer_->vocab_size(),
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
  models::MicrobatchContext pass;
  at::Tensor& tokens = pass.batch[Field::Tokens] = at::full({count, places}, frame_.pad, at::kLong);
  at::Tensor& lengths = pass.batch[Field::Lengths] = at::empty({count}, at::kLong);
  pass.batch[Field::TokenTypes] = at::zeros({count, places}, at::kLong);
  for (std::int64_t row = 0; row < count; ++row) {
    const std::vector<Id>& ids = sequences[static_cast<std::size_t>(row)];
    std::ranges::copy(ids, tokens.mutable_data_ptr<std::int64_t>() + row * places);
    lengths.mutable_data_ptr<std::int64_t>()[row] = std::ssize(ids);
  }
  const models::Tensors hidden = models::run_layers(model_, 0, layers_, parameters_, {}, pass);
  const at::Tensor pooled = pool(options_.pooling, hidden.front(), lengths);
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

void embed(const EmbedOptions& options) {
  check_embeddings_path("--out", options.out);
  device::initialize();
  const TextEmbedder embedder(options);
  const std::vector<std::string> texts = corpus::read_texts(options.texts, options.field);
  if (texts.empty()) fail_input("--texts is '{}', which has no text", options.texts);
  const at::Tensor embeddings = embedder.embed(texts);
  write_embeddings(options.out, embeddings);
  const std::int64_t width = embeddings.size(1);
  print_result(options.json, {{"file", options.out}, {"texts", texts.size()}, {"width", width}},
               fmt::format("{} texts in {}, {} numbers each\n", texts.size(), options.out, width));
}

}  // namespace

void add_embed(CLI::App& command, int&) {
  auto options = std::make_shared<EmbedOptions>();
  auto pool = std::make_shared<std::string>("mean");
  command.add_option("folder", options->folder, "A BERT: a run, a checkpoint or a Hugging Face folder")
      ->required();
  command
      .add_option("--texts", options->texts, "A file with one text per line, or .tsv or .jsonl with --field")
      ->required();
  command.add_option("--out", options->out, "FILE.safetensors (tensor `embeddings`) or FILE.jsonl")
      ->required();
  command.add_option("--pool", *pool, "Mean of all tokens, the first ([CLS]) or the last")
      ->check(CLI::IsMember(kPoolings))
      ->capture_default_str();
  command.add_flag("--normalize", options->normalize, "Normalize vectors to unit length");
  command.add_option("--context", options->context, "Tokens per text, at most; 0: the model's maximum")
      ->check(CLI::NonNegativeNumber);
  command.add_option("--batch", options->batch, "Texts computed together")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  command.add_option("--field", options->field, "Name of the text: field of jsonl or column of tsv")
      ->capture_default_str();
  command.add_option("--tokenizer", options->tokenizer,
                     "Tokenizer: a folder or a file (default: the model's)");
  add_json_flag(command, options->json);
  command.callback([options, pool] {
    options->pooling = kPoolings.at(*pool);
    embed(*options);
  });
}

}  // namespace twobw::cli
