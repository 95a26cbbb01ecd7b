#include "train/export.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>

#include "architecture/heads.h"
#include "base/error.h"
#include "checkpoint/durable.h"
#include "checkpoint/pretrained.h"
#include "checkpoint/translate.h"
#include "models/model.h"
#include "tokenizer/load.h"

namespace twobw::train {

void save_model(const runtime::Pipeline& pipeline, const runtime::Setup& setup,
                const checkpoint::ModelFiles& files, const std::string& folder) {
  std::vector<checkpoint::NamedTensor> tensors;
  for (int r = 0; r < setup.spec.shape.stages; ++r) {
    const runtime::Stage& stage = pipeline.stage(r);
    for (const weights::Parameter& parameter : stage.layout().parameters()) {
      if (!parameter.spec.tied_to.empty()) continue;
      const at::Tensor ours =
          stage.newest_weights().narrow(0, parameter.offset, parameter.count).view(parameter.spec.shape);
      const auto stored = checkpoint::to_stored(setup.config.model, parameter.spec, ours);
      tensors.insert(tensors.end(), stored.begin(), stored.end());
    }
  }
  const std::string temporary = folder + ".partial";
  std::error_code ignored;
  std::filesystem::remove_all(temporary, ignored);
  checkpoint::write_model(temporary, tensors, files);
  checkpoint::replace_folder(temporary, folder);
}

SavedModel::SavedModel(const std::string& run_dir)
    : config_(load_config(run_dir + "/config.yaml", {})),
      tokenizer_(tokenizer::load_tokenizer(config_.data.tokenizer)),
      model_(models::build(config_.model)) {
  const checkpoint::Pretrained weights(config_.model, run_dir + "/model");
  weights.check(model_.layers);
  std::map<std::string, at::Tensor, std::less<>> read;  // tied ones once
  for (const architecture::Layer& layer : model_.layers) {
    for (const architecture::Parameter& spec : layer.parameters) {
      at::Tensor& tensor = read[std::string(spec.group_name())];
      if (!tensor.defined()) {
        tensor = at::empty(spec.shape, at::kFloat);
        weights.read(spec, tensor);
      }
      parameters_.push_back(tensor);
    }
  }
}

at::Tensor SavedModel::logits(const at::Tensor& tokens) const {
  at::NoGradGuard no_grad;
  models::Pass pass;
  pass.batch[models::Field::Tokens] = tokens.unsqueeze(0);
  const models::Tensors x = models::run_layers(model_, 0, model_.size(), parameters_, {}, pass);
  return x.front().squeeze(0);
}

std::vector<std::int64_t> SavedModel::encode(const std::string& prompt) const {
  std::vector<tokenizer::Id> ids;
  if (prompt.empty() && tokenizer_->special().eos) {
    ids = {*tokenizer_->special().eos};
  } else {
    tokenizer_->encode(prompt.empty() ? "\n" : prompt, ids);
  }
  if (ids.empty()) fail_input("the prompt has no tokens; give some text");
  for (const tokenizer::Id id : ids) {
    if (id >= config_.model.vocab)
      fail_input("the prompt holds token {}; the model knows {} tokens", id, config_.model.vocab);
  }
  return {ids.begin(), ids.end()};
}

std::string SavedModel::generate(const std::string& prompt, int count, double temperature,
                                 std::uint64_t seed) const {
  if (const ModelHead head = architecture::head_of(config_.model); head != ModelHead::CausalLm)
    fail_input("model.head of this run is {}; only causal_lm generates text", name(head));
  auto generator = at::detail::createCPUGenerator(seed);
  std::vector<std::int64_t> tokens = encode(prompt);
  std::string text;
  for (int i = 0; i < count; ++i) {
    const std::size_t length = std::min<std::size_t>(tokens.size(), config_.model.context);
    const at::Tensor window = at::empty({static_cast<std::int64_t>(length)}, at::kLong);
    std::copy(tokens.end() - static_cast<std::ptrdiff_t>(length), tokens.end(),
              window.mutable_data_ptr<std::int64_t>());
    const at::Tensor last = logits(window)[-1];
    if (!last.isfinite().all().item<bool>())
      fail_run("the model's logits are not finite: its training has diverged");
    const std::int64_t next =
        temperature == 0.0
            ? last.argmax().item<std::int64_t>()
            : at::multinomial(at::softmax(last / temperature, -1), 1, false, generator).item<std::int64_t>();
    tokens.push_back(next);
    tokenizer_->append_text(static_cast<tokenizer::Id>(next), prompt.empty() && i == 0, text);
  }
  return text;
}

}  // namespace twobw::train
