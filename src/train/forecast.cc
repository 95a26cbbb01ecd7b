#include "train/forecast.h"

#include <algorithm>

#include "base/error.h"
#include "base/gpu_name.h"
#include "base/text.h"
#include "device/cores.h"
#include "device/machine.h"
#include "planner/configuration.h"
#include "planner/cost_tables.h"
#include "planner/preference.h"
#include "planner/report.h"
#include "planner/search.h"
#include "train/profiler.h"

namespace twobw::train {
namespace {

using Json = nlohmann::ordered_json;

// What is to be measured: the model by itself, on one core.
Setup measuring_setup(const Config& config) {
  Config alone = config;
  alone.pipeline = PipelineConfig{.schedule = config.pipeline.schedule, .stages = 1};
  alone.devices = {};
  return prepare(alone);
}

Json held_against(double forecast, double measured) {
  return {{"forecast", forecast}, {"measured", measured}, {"ratio", measured > 0 ? forecast / measured : 0}};
}

}  // namespace

Forecast plan_run(const Config& config, const std::function<void(const std::string&)>& say) {
  if (std::ranges::any_of(config.devices, names_gpu))
    fail_input("plan is auto, and devices names GPUs; in this version it plans for CPU cores alone");
  const Setup setup = measuring_setup(config);
  const PipelineConfig& pipeline = config.pipeline;
  const int batch = pipeline.microbatch * pipeline.microbatches * pipeline.replicas;
  say("measuring the layers, to plan the run");
  planner::Cluster cluster = device::cluster_of(device::measure_machine());
  const planner::Profile profile =
      train::profile(setup, profiled_places(setup),
                     {.sizes = planner::usual_microbatches(std::min(batch, 16), {}), .recomputation = false},
                     {.on_note = say});
  if (profile.links.contains("local")) cluster.nodes[0].link = profile.links.at("local");
  auto costs = planner::measured_tables(config, cluster, profile);
  planner::Problem problem = planner::problem_of(config, std::move(cluster), std::move(costs));
  problem.batch = batch;
  const planner::SearchResult result = planner::search_with(problem, {});
  if (!result.best) {
    fail_input("plan: auto finds no way to train this model here:\n{}",
               planner::report(problem, result, config.model.family, false));
  }
  const planner::Plan& plan = result.best->plan;
  say(fmt::format(
      "planned: {} with {} stages x {} replicas, m={} microbatches of {}, e={}; forecast {} tokens/s",
      schedule::name(plan.schedule), plan.stages.size(), plan.replicas, plan.microbatches, plan.microbatch,
      plan.extra, format_count(plan.tokens_per_s)));
  Forecast forecast{.config = planner::with_plan(config, plan, device::core_names()), .plan = plan};
  forecast.config.plan = "none";  // the run's config.yaml repeats the run, not the search
  validate(forecast.config);
  return forecast;
}

Json compare(const planner::Plan& plan, const Json& summary) {
  Json stages = Json::array();
  for (std::size_t r = 0; r < plan.stages.size(); ++r) {
    const planner::Footprint& memory = plan.stages[r].memory;
    const Json& measured = summary["stages"][r];
    Json terms = Json::object();
    for (int i = 0; i < planner::kTerms; ++i) {
      const std::string name(planner::name(static_cast<planner::Term>(i)));
      terms[name] = held_against(memory.bytes[i], measured["memory"].value(name, 0.0));
    }
    Json entry = held_against(memory.total(), measured["peak_bytes"]);
    entry["terms"] = terms;
    stages.push_back(std::move(entry));
  }
  return {{"of_synchronous_start", summary["of_synchronous_start"]},
          {"tokens_per_s", held_against(plan.tokens_per_s, summary["tokens_per_s"])},
          {"memory", stages}};
}

std::vector<std::string> describe_comparison(const Json& comparison) {
  const auto off = [](const Json& pair) { return 100 * (pair["ratio"].get<double>() - 1); };
  const Json& rate = comparison["tokens_per_s"];
  if (comparison["of_synchronous_start"]) {
    return {fmt::format(
        "the forecast, {} tokens/s, is not held against this run: it has little but its synchronous start "
        "(pipeline.sync_updates)",
        format_count(rate["forecast"]))};
  }
  std::vector<std::string> lines = {fmt::format("forecast {} tokens/s, measured {}: {:+.1f}%",
                                                format_count(rate["forecast"]),
                                                format_count(rate["measured"]), off(rate))};
  int stage = 0;
  for (const Json& memory : comparison["memory"]) {
    lines.push_back(fmt::format("  stage {}: forecast {} of tensors, measured {}: {:+.1f}%", stage++,
                                format_bytes(memory["forecast"].get<std::int64_t>()),
                                format_bytes(memory["measured"].get<std::int64_t>()), off(memory)));
  }
  return lines;
}

}  // namespace twobw::train
