#include "app/train/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "app/train/trainer.h"
#include "core/base/error.h"
#include "core/base/output.h"
#include "core/base/output_file.h"
#include "core/base/text.h"
#include "core/base/text_file.h"
#include "engine/runtime/setup.h"
#include "text/corpus/configured_tokens.h"

namespace twobw::train {
namespace {

void announce(const std::string& line) {
  print_at_once(line + "\n");
}

// Both schedules, before anything is made or run.
void check_both(const Config& config) {
  for (const ScheduleKind schedule : {ScheduleKind::Flush, ScheduleKind::TwoBW}) {
    Config one = config;
    one.pipeline.schedule = schedule;
    runtime::prepare(one);
  }
}

void introduce_comparison(const CompareRequest& request) {
  const Config& config = request.config;
  const PipelineConfig& pipeline = config.pipeline;
  announce(fmt::format("flush and 2bw{}: {}{} stages, m={} microbatches of {} x {} tokens an update, e={}",
                       pipeline.predict ? ", predicted" : "",
                       pipeline.replicas > 1 ? fmt::format("{} replicas of ", pipeline.replicas) : "",
                       pipeline.stages, pipeline.microbatches, pipeline.microbatch, config.model.context,
                       pipeline.extra));
  announce(fmt::format("{} updates on {}, evaluated every {}; {} seed{}", config.train.updates,
                       describe(config.data.train), config.train.eval_every, request.seeds,
                       request.seeds == 1 ? "" : "s"));
}

ComparedRun compared(const Outcome& outcome) {
  return {.schedule = outcome.config.pipeline.schedule,
          .seed = outcome.config.train.seed,
          .curve = outcome.curve,
          .tokens_per_s = outcome.summary["tokens_per_s"],
          .seconds = outcome.summary["seconds"]};
}

using BothConfigs = std::array<Config, 2>;  // flush, 2bw

BothConfigs both_configs(const CompareRequest& request) {
  const Config config = corpus::with_token_files(request.config);
  BothConfigs configs = {config, config};
  configs[0].pipeline.schedule = ScheduleKind::Flush;
  configs[1].pipeline.schedule = ScheduleKind::TwoBW;
  return configs;
}

Outcome run_one(Config config, int number, int runs, int index) {
  const std::string_view schedule = name(config.pipeline.schedule);
  config.train.seed += index;
  config.resume = "none";
  config.run_dir = fmt::format("{}/{}-seed{}", config.run_dir, schedule, config.train.seed);
  announce(fmt::format("\nrun {} of {}: {}, seed {}", number + 1, runs, schedule, config.train.seed));
  const Outcome outcome = train(config, {.brief = true});
  for (const std::string& sentence : outcome.unwritten) announce("warning: " + sentence);
  if (!outcome.interrupted) {
    announce(fmt::format("validation loss {:.4f}; {}, {} tokens/s", outcome.curve.back().loss,
                         format_duration(outcome.summary["seconds"]),
                         format_count(outcome.summary["tokens_per_s"])));
  }
  return outcome;
}

// Runs both schedules with one seed. Returns false if either was interrupted.
bool add_seed(BothConfigs& configs, int index, int seeds, Comparison& comparison) {
  std::array<ComparedRun, 2> runs;
  for (std::size_t i = 0; i < configs.size(); ++i) {
    const Outcome outcome = run_one(configs[i], 2 * index + static_cast<int>(i), 2 * seeds, index);
    if (outcome.interrupted) return false;
    runs[i] = compared(outcome);
    // Measured in the first run; the other seeds run the same.
    configs[i].pipeline.split = outcome.summary["split"].get<std::vector<int>>();
  }
  comparison.flush.push_back(runs[0]);
  comparison.two_bw.push_back(runs[1]);
  return true;
}

}  // namespace

Config to_compare(Config config, std::optional<std::int64_t> updates) {
  if (updates) config.train.updates = *updates;
  validate(config);
  const PipelineConfig& pipeline = config.pipeline;
  if (config.plan == "auto")
    fail_input("plan is auto; to compare, it must be none, so that both schedules run the same pipeline");
  if (pipeline.schedule != ScheduleKind::TwoBW)
    fail_input("pipeline.schedule is {}; to compare it with flush, it must be 2bw", name(pipeline.schedule));
  if (pipeline.stages == 1)
    fail_input(
        "pipeline.stages is 1; to compare, it must be at least 2, for one stage never waits in a flush");
  const std::int64_t least = pipeline.sync_updates + 2;  // the one after them is synchronous too
  if (config.train.updates < least) {
    fail_input(
        "train.updates is {} and pipeline.sync_updates is {}: 2bw would make only synchronous updates, as "
        "flush does; to compare, there must be at least {} updates",
        config.train.updates, pipeline.sync_updates, least);
  }
  // A curve needs points.
  constexpr std::int64_t kLeast = 4, kUsual = 10;
  std::int64_t& every = config.train.eval_every;
  if (every == 0 || every > config.train.updates / kLeast)
    every = std::max<std::int64_t>(1, config.train.updates / kUsual);
  return config;
}

Comparison compare(const CompareRequest& request) {
  const Config& config = request.config;
  check_both(config);
  FolderLock lock;
  const std::string moved_to = make_run_directory(config.run_dir, lock);
  if (!moved_to.empty()) announce("what was in " + config.run_dir + " is now in " + moved_to);
  introduce_comparison(request);
  Comparison comparison{.updates = config.train.updates,
                        .tokens_per_update = runtime::tokens_per_update(config)};
  BothConfigs configs = both_configs(request);
  for (int index = 0; index < request.seeds; ++index) {
    if (!add_seed(configs, index, request.seeds, comparison)) break;
    replace_text(config.run_dir + "/compare.json", pretty(to_json(comparison)));
  }
  if (comparison.flush.empty()) fail_run("interrupted before both runs of the first seed had ended");
  return comparison;
}

}  // namespace twobw::train
