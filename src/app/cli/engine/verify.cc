#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <iterator>

#include "app/cli/arguments.h"
#include "app/cli/engine/commands.h"
#include "app/cli/json_output.h"
#include "app/rendezvous/join.h"
#include "app/train/config_digest.h"
#include "app/train/verify.h"
#include "core/base/config.h"
#include "core/base/config_schema.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/launch/world.h"
#include "engine/device/device.h"
#include "engine/transport/processes.h"
#include "planning/architecture/families.h"

namespace twobw::cli {
namespace {

bool takes(const ModelConfig& model) {
  try {
    architecture::model_of(model);
    return true;
  } catch (const InputError&) {
    return false;
  }
}

// Without a file, kVerifyDefaults takes the place of the defaults; of the model's keys only if model.from has
// none.
Config load_small(RunArguments arguments) {
  if (!arguments.file.empty()) return load(arguments);
  const bool is_imported = arguments.sets("model.from");
  std::vector<std::string> small(std::begin(kVerifyDefaults), std::end(kVerifyDefaults));
  if (is_imported) std::erase_if(small, [](const std::string& text) { return text.starts_with("model."); });
  arguments.defaults = std::move(small);
  const Config config = load(arguments);
  if (is_imported || arguments.sets("model.dropout")) return config;
  Config dropping = config;
  dropping.model.dropout = kVerifyDropout;
  return takes(dropping.model) ? dropping : config;
}

Json to_json(const Config& config, const train::Verification& result, double seconds) {
  return {{"equal", result.equal},
          {"difference", result.difference},
          {"schedule", name(config.pipeline.schedule)},
          {"predicted", config.pipeline.predicts()},
          {"replicas", config.pipeline.replicas},
          {"stages", config.pipeline.stages},
          {"split", result.split},
          {"microbatches", config.pipeline.microbatches},
          {"parameters", result.parameters},
          {"updates", result.updates},
          {"skipped_updates", result.skipped},
          {"peak_versions", result.peak_versions},
          {"loss", result.final_loss},
          {"seconds", seconds}};
}

void print_result(const Config& config, const train::Verification& result, double within, double seconds) {
  fmt::print(
      "verify {}{}: {}d={} stages of [{}] layers, m={}, e={}, sync_updates={}, {} parameters, {} updates\n",
      name(config.pipeline.schedule), config.pipeline.predicts() ? ", predicted" : "",
      config.pipeline.replicas > 1 ? fmt::format("w={} replicas of ", config.pipeline.replicas) : "",
      config.pipeline.stages, fmt::join(result.split, ", "), config.pipeline.microbatches,
      config.pipeline.extra, config.pipeline.sync_updates,
      format_count(static_cast<double>(result.parameters)), result.updates);
  fmt::print("  weight versions alive at once, by stage: {}\n", fmt::join(result.peak_versions, " "));
  if (result.skipped > 0)
    fmt::print("  {} updates skipped for a gradient that is not finite\n", result.skipped);
  if (!result.equal) {
    fmt::print("  DIFFERENT from the serial oracle, first at {}\n", result.difference);
    return;
  }
  const char* replicas = config.pipeline.replicas > 1 ? " of every replica" : "";
  if (within > 0) {
    fmt::print(
        "  losses, gradient norms and validation losses, and the weights{} at the end: those of the serial "
        "oracle, within {:g}\n",
        replicas, within);
  } else {
    fmt::print(
        "  losses, gradient norms, validation losses and weights{} after every update: equal to the serial "
        "oracle, bit for bit\n",
        replicas);
  }
  fmt::print("  last loss {:.6f}; {:.1f} s\n", result.final_loss, seconds);
}

int run(const RunArguments& arguments, train::VerifyOptions options, bool json) {
  const launch::World world = launch::read_world(launch::process_environment());
  const Config config = rendezvous::read_or_broadcast_error(world, [&] {
    Config read = load_small(arguments);
    if (world.size > 1) train::tokenize_texts(read);
    return read;
  });
  device::initialize();
  options.processes = rendezvous::join(world, config.network, train::facts_of("verify", config));
  const auto begin = std::chrono::steady_clock::now();
  const train::Verification result =
      rendezvous::run_and_leave(options.processes.get(), [&] { return train::verify(config, options); });
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  if (world.rank == 0 && json) print_json(to_json(config, result, took.count()));
  if (world.rank == 0 && !json) print_result(config, result, options.within, took.count());
  return result.equal ? 0 : 1;
}

}  // namespace

void add_verify(CLI::App& command, int& exit_code) {
  command.footer(fmt::format(
      "Defaults without CONFIG.yaml, where they differ from docs/reference/configuration.md:\n  {}\n  "
      "model.dropout={} if the family has dropout\nIn fp32 `devices: auto` means CPU "
      "cores.\n\n{}",
      fmt::join(kVerifyDefaults, "\n  "), kVerifyDropout, command.get_footer()));
  auto arguments = add_run_arguments(command);
  auto options = std::make_shared<train::VerifyOptions>();
  command.add_option("--against", options->against,
                     "The schedule that the oracle follows (default: the pipeline's)");
  command
      .add_option("--within", options->within,
                  "Relative tolerance, with GPU kernels as in training (default: bit for bit)")
      ->check(CLI::Range(0.0, 1.0));
  auto json = std::make_shared<bool>(false);
  add_json_flag(command, *json);
  command.callback([arguments, options, json, &exit_code] { exit_code = run(*arguments, *options, *json); });
}

}  // namespace twobw::cli
