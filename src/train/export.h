// The trained model as a file, and a model brought back from it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/config.h"
#include "models/model.h"
#include "runtime/pipeline.h"
#include "runtime/setup.h"

namespace twobw::train {

// The newest true weights of all stages, tied weights once.
void save_model(const runtime::Pipeline& pipeline, const runtime::Setup& setup, const std::string& path);

// A whole model on one device, for evaluation and generation.
class SavedModel {
 public:
  // From RUN_DIR/config.yaml and RUN_DIR/model.safetensors. Throws InputError.
  explicit SavedModel(const std::string& run_dir);

  const Config& config() const { return config_; }
  // Next-token logits [T, vocab] for `tokens` [T], T at most model.context.
  at::Tensor logits(const at::Tensor& tokens) const;
  // Bytes sampled after `prompt`.
  std::string generate(const std::string& prompt, int count, double temperature, std::uint64_t seed) const;

 private:
  Config config_;
  models::Model model_;
  std::vector<at::Tensor> parameters_;  // layer after layer
};

}  // namespace twobw::train
