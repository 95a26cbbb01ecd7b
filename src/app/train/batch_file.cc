#include "app/train/batch_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "engine/checkpoint/safetensors.h"
#include "engine/runtime/microbatches.h"
#include "engine/runtime/setup.h"

namespace twobw::train {
namespace {

// "token_types".
std::string file_name(architecture::Field field) {
  std::string words(architecture::name(field));
  std::ranges::replace(words, ' ', '_');
  return words;
}

}  // namespace

void write_batches(const Config& config, std::int64_t updates, const std::string& path) {
  const runtime::Setup setup = runtime::prepare(config);
  const auto taken = architecture::taken_by(setup.model.layers, 0, setup.model.size());
  runtime::MicrobatchSource microbatches(setup.config, *setup.training, *setup.validation, taken);
  const std::int64_t m = config.pipeline.microbatches;
  std::vector<checkpoint::NamedTensor> tensors;
  for (std::int64_t update = 0; update < updates; ++update) {
    for (int replica = 0; replica < config.pipeline.replicas; ++replica) {
      for (std::int64_t k = update * m; k < (update + 1) * m; ++k) {
        const models::MicrobatchContext pass = microbatches.training(replica, k);
        for (const architecture::Field field : architecture::kFields) {
          if (!pass.batch[field].defined()) continue;
          tensors.push_back(
              {fmt::format("{}.{}.{}", file_name(field), update, pass.microbatch), pass.batch[field]});
        }
      }
    }
  }
  checkpoint::save_safetensors(path, tensors, std::nullopt);
}

}  // namespace twobw::train
