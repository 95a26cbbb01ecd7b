#include "app/inference/model_source.h"

#include <fmt/ranges.h>

#include <map>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/text_file.h"
#include "engine/checkpoint/pretrained.h"
#include "engine/checkpoint/store.h"
#include "planning/architecture/huggingface/model_config.h"

namespace twobw::inference {
namespace {

// Training settings of a run that do not apply to its model's use.
const std::vector<std::string> kOneDevice = {
    "pipeline.stages=1",    "pipeline.replicas=1", "pipeline.split=auto", "pipeline.recompute=none",
    "pipeline.extra=0",     "devices=auto",        "plan=none",           "resume=none",
    "train.precision=fp32", "model.dropout=0"};

std::vector<std::string> with_defaults(const std::vector<std::string>& settings) {
  std::vector<std::string> all = kOneDevice;
  for (const std::string& text : settings)
    all.push_back(text.starts_with("data=") ? "data.validation=" + text.substr(5) : text);
  return all;
}

ModelSource find_run(const std::string& run, const std::string& folder,
                     const std::vector<std::string>& settings) {
  const std::vector<std::string> all = with_defaults(settings);
  ModelSource source{.config = load_config_of_run(run, all), .is_run = true, .has_data = true};
  source.folder = folder;
  source.config.run_dir = run;  // it may have been moved
  source.has_tokenizer = true;
  std::string& tokenizer = source.config.data.tokenizer;
  tokenizer = tokenizer::present_tokenizer(tokenizer, source.folder);
  if (!is_set("data.validation", "", all)) {
    const Config trained = load_config(run + "/config.yaml", {});
    source.sample = std::int64_t{source.config.train.eval_microbatches} * trained.pipeline.microbatch;
  }
  return source;
}

ModelSource find_folder(const std::string& path, const std::string& folder,
                        const std::vector<std::string>& settings) {
  ModelSource source{.folder = folder};
  if (!is_file(source.folder + "/config.json")) {
    fail_input(
        "'{}' is neither a run, which has a config.yaml, nor a model's folder, which has a config.json",
        path);
  }
  std::vector<std::string> all = with_defaults(settings);
  all.push_back("model.from=" + nlohmann::json(source.folder).dump());  // quoted, for any name
  source.config = architecture::huggingface::load_run_config("", all);
  source.has_data = is_set("data.validation", "", all);
  source.has_tokenizer = is_set("data.tokenizer", "", all);
  if (!source.has_tokenizer && tokenizer::has_tokenizer(source.folder)) {
    source.config.data.tokenizer = source.folder;
    source.has_tokenizer = true;
  }
  return source;
}

checkpoint::Pretrained weights_of(const ModelSource& source) {
  if (source.is_run) return {source.config.model, source.folder};
  return checkpoint::Pretrained(source.config.model);
}

}  // namespace

ModelSource find_model(const std::string& path, const std::vector<std::string>& settings) {
  const checkpoint::ModelPlace place = checkpoint::newest_model(path);
  ModelSource source =
      place.is_of_run ? find_run(path, place.folder, settings) : find_folder(path, place.folder, settings);
  source.config.model.dropout = 0;
  if (source.config.pipeline.replicas > 1) {
    fail_input("pipeline.replicas is {}; to evaluate and to generate it must be 1",
               source.config.pipeline.replicas);
  }
  return source;
}

void check_weights(const ModelSource& source, const models::Model& model) {
  const checkpoint::HeadChange change = weights_of(source).check(model.layers);
  if (change.initialized.empty()) return;
  fail_input("'{}' has no weights for the model's head, {}; train it first: twobw train model.from={}",
             source.folder, fmt::join(change.initialized, ", "), source.folder);
}

std::vector<at::Tensor> read_weights(const ModelSource& source, const models::Model& model, int first,
                                     int last, const at::TensorOptions& compute) {
  const checkpoint::Pretrained weights = weights_of(source);
  std::map<std::string, at::Tensor, std::less<>> read;
  std::vector<at::Tensor> parameters;
  for (int layer = first; layer < last; ++layer) {
    for (const architecture::Parameter& spec : model.layers[layer].parameters) {
      at::Tensor& tensor = read[spec.group_name()];
      if (!tensor.defined()) {
        const at::Tensor stored = at::empty(spec.shape, at::kFloat);
        weights.read(spec, stored);
        tensor = stored.to(compute);
      }
      parameters.push_back(tensor);
    }
  }
  return parameters;
}

std::unique_ptr<tokenizer::Tokenizer> load_tokenizer(const ModelSource& source) {
  return source.has_tokenizer ? tokenizer::load_tokenizer(source.config.data.tokenizer) : nullptr;
}

}  // namespace twobw::inference
