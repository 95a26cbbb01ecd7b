#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <optional>
#include <vector>

#include "app/cli/arguments.h"
#include "app/cli/engine/commands.h"
#include "app/cli/json_output.h"
#include "app/inference/generation.h"
#include "app/measure/forecast.h"
#include "app/measure/trials.h"
#include "app/rendezvous/join.h"
#include "app/train/config_digest.h"
#include "app/train/resume.h"
#include "app/train/trainer.h"
#include "core/base/config.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/launch/world.h"
#include "core/schedule/spec.h"
#include "engine/device/device.h"
#include "engine/runtime/setup.h"
#include "engine/transport/processes.h"
#include "planning/architecture/families.h"

namespace twobw::cli {
namespace {

void print_outcome(const Config& config, const nlohmann::ordered_json& summary) {
  if (summary["updates"] == 0) {
    fmt::print("\nstopped before the first update; saved in {}\n", config.run_dir);
    return;
  }
  fmt::print("\n{} updates in {}: loss {:.4f}", summary["updates"].get<int>(),
             format_duration(summary["seconds"]), summary["loss"].get<double>());
  if (!summary["validation_loss"].is_null())
    fmt::print(", validation loss {:.4f}", summary["validation_loss"].get<double>());
  fmt::print("; {} tokens/s, pipeline busy {:.1f}%\n", format_count(summary["tokens_per_s"]),
             100 * summary["utilisation"].get<double>());
  int index = 0;
  const int stages = config.pipeline.stages;
  for (const auto& stage : summary["stages"]) {
    fmt::print("  {}: layers {}..{} on {}, busy {:.1f}%, peak {} of tensors\n",
               schedule::worker_name(config.pipeline.replicas, index / stages, index % stages),
               stage["layers"][0].get<int>(), stage["layers"][1].get<int>(),
               stage["device"].get<std::string>(), 100 * stage["utilisation"].get<double>(),
               format_bytes(stage["peak_bytes"]));
    ++index;
  }
  if (const double waited = summary["data_wait_s"]; waited > 0.01 * summary["seconds"].get<double>())
    fmt::print("  a stage waited {} for its data; pipeline.prefetch says how much is read ahead\n",
               format_duration(waited));
  if (summary["skipped_updates"] > 0)
    fmt::print("  {} updates were skipped\n", summary["skipped_updates"].get<int>());
  if (summary.contains("forecast")) {
    for (const std::string& line : measure::describe_comparison(summary["forecast"]))
      fmt::print("{}\n", line);
  }
  fmt::print("saved in {}\n", config.run_dir);
}

struct TrainOptions {
  int sample = 0;             // tokens
  std::string prompt = "\n";  // of the samples
  std::string trace, beside;  // empty: none
  bool json = false;
};

void print_samples(const Config& config, const TrainOptions& options) {
  constexpr double kTemperature = 0.8;
  constexpr std::size_t kSamples = 3;
  const bool writes_text =
      architecture::head_of(config.model) == ModelHead::CausalLm && !is_synthetic(config.data.train);
  if (!writes_text || options.sample == 0) return;
  const inference::ModelSource source = inference::find_model(config.run_dir, {});
  const auto tokenizer = inference::load_tokenizer(source);
  // Each with random numbers of its own.
  const std::vector<inference::Prompt> prompts(kSamples,
                                               inference::encode_prompt(*tokenizer, options.prompt));
  const auto samples =
      inference::generate(source, tokenizer.get(), prompts,
                          {.sampling = {.temperature = kTemperature}, .tokens = options.sample});
  for (std::size_t i = 0; i < kSamples; ++i) {
    fmt::print("\nsample {} of {}, {} {}:\n{}{}\n", i + 1, kSamples, options.sample,
               config.data.tokenizer == "bytes" ? "bytes" : "tokens", options.prompt, samples[i].text);
  }
}

// Config of this run under another schedule.
Config under(Config config, ScheduleKind schedule) {
  config.pipeline.schedule = schedule;
  return config;
}

// Compares the throughput of another schedule on the same stages: both run a few updates in turn, because the
// speed of a machine varies.
void print_beside(const train::Outcome& outcome, ScheduleKind other) {
  constexpr measure::TrialBudget kBudget{.seconds = 20, .tolerance = 0.01};
  Config config = outcome.config;
  config.model.from = "none";  // times do not depend on weights
  config.pipeline.split = outcome.summary["split"].get<std::vector<int>>();
  const std::vector<Config> runs = {config, under(config, other)};
  const auto results = measure::interleave_trials(runs.size(), kBudget,
                                                  [&](std::size_t i) { return measure::try_run(runs[i]); });
  const double own = results[0].tokens_per_s, others = results[1].tokens_per_s;
  fmt::print(
      "\nbeside {}, {} times {} updates each in turn: {} {} tokens/s, {} {}, so {} is {:.2f} times as fast\n",
      name(other), results[0].turns, measure::trial_updates(config), name(config.pipeline.schedule),
      format_count(own), name(other), format_count(others), name(config.pipeline.schedule), own / others);
}

// A run that is resumed by its folder alone has the configuration of its checkpoint. The split there is that
// of its stages: for other stages it is auto. Without run_dir a run continues in the folder that it resumes.
Config load_run(const RunArguments& arguments) {
  const std::string run = arguments.file.empty() ? read_overrides(arguments.overrides).resume : "none";
  if (run != "none" && run != "auto") {
    std::vector<std::string> settings = arguments.overrides;
    if (arguments.sets("pipeline.stages") && !arguments.sets("pipeline.split"))
      settings.emplace_back("pipeline.split=auto");
    return train::config_of_run(run, settings);
  }
  Config config = load(arguments);
  if (train::is_branch(config) && !is_set("run_dir", arguments.file, arguments.overrides))
    config.run_dir = config.resume;
  return config;
}

// Drops the devices of a resumed run that is planned again in several processes: its checkpoint names those
// of the former hosts.
Config on_present_devices(Config config, const RunArguments& arguments, const launch::World& world) {
  if (world.size > 1 && arguments.file.empty() && config.resume != "none" && config.resume != "auto" &&
      config.plan == "auto" && !arguments.sets("devices"))
    config.devices.clear();
  return config;
}

int run(const RunArguments& arguments, const TrainOptions& options) {
  const launch::World world = launch::read_world(launch::process_environment());
  if (world.size > 1 && !options.beside.empty())
    fail_input("--beside runs in one process; start it without a launcher");
  const Config config = rendezvous::read_or_broadcast_error(world, [&] {
    Config read = on_present_devices(load_run(arguments), arguments, world);
    if (world.size > 1) train::tokenize_texts(read);
    return read;
  });
  std::optional<ScheduleKind> beside;
  if (!options.beside.empty()) {
    beside = schedule::parse_kind(options.beside);
    if (config.plan != "auto") schedule::validate(runtime::spec_of(under(config, *beside)));
  }
  device::initialize();
  const ProgressOnStderr quiet(options.json);
  train::RunOptions run_options = {.trace = options.trace};
  if (options.json) run_options.on_record = [&](const Json& line) { quiet.print_line(line); };
  run_options.processes = rendezvous::join(world, config.network, train::facts_of("train", config));
  const train::Outcome outcome = rendezvous::run_and_leave(run_options.processes.get(),
                                                           [&] { return train::train(config, run_options); });
  if (world.rank > 0) return 0;
  if (options.json) quiet.print_line({{"summary", outcome.summary}});
  print_outcome(outcome.config, outcome.summary);
  for (const std::string& sentence : outcome.unwritten) fmt::print("warning: {}\n", sentence);
  if (outcome.interrupted) return 0;
  if (beside) print_beside(outcome, *beside);
  print_samples(config, options);
  return 0;
}

}  // namespace

void add_train(CLI::App& command, int& exit_code) {
  auto arguments = add_run_arguments(command);
  auto options = std::make_shared<TrainOptions>();
  command.add_option("--sample", options->sample, "Afterwards print three samples of this many tokens")
      ->check(CLI::Range(0, inference::kMostTokens));
  command.add_option("--prompt", options->prompt, "Prompt of the samples (default: a new line)");
  command.add_option("--trace", options->trace,
                     "Write the times of every instruction to this file, for ui.perfetto.dev");
  command.add_option("--beside", options->beside,
                     "Afterwards compare the throughput with this schedule, such as flush");
  command.add_flag("--json", options->json,
                   "Print JSON lines: run_dir and updates, the records of metrics.jsonl, the summary");
  command.callback([arguments, options, &exit_code] { exit_code = run(*arguments, *options); });
}

}  // namespace twobw::cli
