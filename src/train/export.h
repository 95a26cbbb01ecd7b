// The trained model as a folder, and a model brought back from it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/config.h"
#include "checkpoint/model_folder.h"
#include "models/model.h"
#include "runtime/pipeline.h"
#include "runtime/setup.h"
#include "tokenizer/tokenizer.h"

namespace twobw::train {

// The newest true weights of all stages, tied weights once, and `files` beside them. A former one is
// replaced.
void save_model(const runtime::Pipeline& pipeline, const runtime::Setup& setup,
                const checkpoint::ModelFiles& files, const std::string& folder);

// A whole model on one device, for evaluation and generation.
class SavedModel {
 public:
  // From RUN_DIR/config.yaml and RUN_DIR/model. Throws InputError.
  explicit SavedModel(const std::string& run_dir);

  const Config& config() const { return config_; }
  // Next-token logits [T, vocab] for `tokens` [T], T at most model.context.
  at::Tensor logits(const at::Tensor& tokens) const;
  // The text of `count` tokens sampled after `prompt`, in the words of data.tokenizer.
  std::string generate(const std::string& prompt, int count, double temperature, std::uint64_t seed) const;

 private:
  // What an empty prompt stands for: the end of another document, or of a line.
  std::vector<std::int64_t> encode(const std::string& prompt) const;

  Config config_;
  std::unique_ptr<tokenizer::Tokenizer> tokenizer_;
  models::Model model_;
  std::vector<at::Tensor> parameters_;  // layer after layer
};

}  // namespace twobw::train
