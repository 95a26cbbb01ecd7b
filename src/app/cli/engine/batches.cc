// twobw batches: writes the microbatches of a run, for another training loop on the same data.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "app/cli/arguments.h"
#include "app/cli/engine/commands.h"
#include "app/cli/json_output.h"
#include "core/base/text_file.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/device/device.h"
#include "engine/runtime/microbatches.h"
#include "engine/runtime/setup.h"

namespace twobw::cli {
namespace {

// Writes the inputs of the model in the first updates as safetensors named FIELD.UPDATE.MICROBATCH, both from
// 0: "tokens.0.3". Replica p has microbatches p m to p m + m - 1. `loss_scale` is 1 over the number of labels
// in the update. Throws InputError.
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
          std::string name(architecture::name(field));
          std::ranges::replace(name, ' ', '_');
          tensors.push_back({fmt::format("{}.{}.{}", name, update, pass.microbatch), pass.batch[field]});
        }
      }
    }
  }
  checkpoint::save_safetensors(path, tensors, std::nullopt);
}

}  // namespace

void add_batches(CLI::App& command, int&) {
  struct Options {
    std::int64_t updates = 1;
    std::string out;
    bool json = false;
  };
  auto arguments = add_run_arguments(command);
  auto options = std::make_shared<Options>();
  command.add_option("--updates", options->updates, "Number of updates, from the first")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command.add_option("--out", options->out, "The safetensors file to write, tensors FIELD.UPDATE.MICROBATCH")
      ->required();
  add_json_flag(command, options->json);
  command.callback([arguments, options] {
    check_writable("--out", options->out);
    device::initialize();
    const Config config = load(*arguments);
    write_batches(config, options->updates, options->out);
    const auto& [updates, out, json] = *options;
    const std::int64_t microbatches = updates * config.pipeline.microbatches * config.pipeline.replicas;
    print_result(json, {{"file", out}, {"updates", updates}, {"microbatches", microbatches}},
                 fmt::format("{} microbatches of {} updates are in {}\n", microbatches, updates, out));
  });
}

}  // namespace twobw::cli
