#include "app/measure/forecast.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "app/measure/profiler.h"
#include "app/measure/trials.h"
#include "core/base/error.h"
#include "core/base/gpu_name.h"
#include "core/base/text.h"
#include "engine/runtime/rank_map.h"
#include "engine/transport/sum_rounds.h"
#include "planning/host/cores.h"
#include "planning/host/machine.h"
#include "planning/planner/costs/cost_tables.h"
#include "planning/planner/costs/estimate.h"
#include "planning/planner/report/report.h"
#include "planning/planner/search/configuration.h"
#include "planning/planner/search/search.h"

namespace twobw::measure {
namespace {

// Ranks by node.
std::vector<std::vector<int>> ranks_by_node(const DevicesOfProcesses& shared, int each) {
  const std::vector<std::vector<int>> hosts = ranks_by_host(shared.hosts);
  if (hosts.size() > 1 || each == 1) return hosts;
  std::vector<std::vector<int>> processes;
  for (int rank = 0; rank < shared.processes(); ++rank) processes.push_back({rank});
  return processes;
}

// Places the stages by worker number.
void place(const SharedCluster& shared, planner::Plan& plan) {
  const PipelineShape shape = planner::shape_of(plan);
  const int processes = static_cast<int>(shared.nodes.size());
  const runtime::RankMap rank_map(shape, processes, 0);
  const int each = rank_map.workers_here();
  for (int stage = 0; stage < shape.stages; ++stage) {
    planner::StagePlan& stage_plan = plan.stages[static_cast<std::size_t>(stage)];
    for (int replica = 0; replica < shape.replicas; ++replica) {
      const int worker = replica * shape.stages + stage, rank = rank_map.rank_of(worker);
      const int node = shared.nodes[static_cast<std::size_t>(rank)];
      const auto before = std::count(shared.nodes.begin(), shared.nodes.begin() + rank, node);
      stage_plan.nodes.at(static_cast<std::size_t>(replica)) = node;
      stage_plan.devices.at(static_cast<std::size_t>(replica)) =
          static_cast<int>(before) * each + worker % each;
    }
  }
}

// Number of nodes with replicas of the first stage.
int spread_of(const SharedCluster& shared, int stages, int replicas) {
  const int processes = static_cast<int>(shared.nodes.size());
  std::set<int> nodes;
  for (int replica = 0; replica < replicas; ++replica) {
    const int rank = replica * stages * processes / (stages * replicas);
    nodes.insert(shared.nodes[static_cast<std::size_t>(rank)]);
  }
  return static_cast<int>(nodes.size());
}

// Searches with replicas spread over as many nodes as by ranks, then moves the plan to the exact places.
std::optional<planner::Plan> best_plan(planner::Problem problem, const planner::Preferences& preferences,
                                       const SharedCluster& shared) {
  problem.spread = spread_of(shared, *problem.fixed.stages, *problem.fixed.replicas);
  planner::SearchResult result = planner::search_with(problem, preferences);
  if (!result.best) {
    problem.spread = 0;
    result = planner::search_with(problem, preferences);
  }
  if (!result.best) return std::nullopt;
  planner::Plan plan = result.best->plan;
  plan.simulated_tokens_per_s = 0;  // was for the search's places
  place(shared, plan);
  return planner::evaluate(problem, std::move(plan)).plan;
}

bool has_gpus(const DevicesOfProcesses& shared) {
  return names_gpu(shared.names.front());
}

std::string describe_link(const DevicesOfProcesses& shared, const char* where,
                          const planner::LinkSpec& link) {
  return fmt::format("measured {}between {}: {} each way while both are full, {}",
                     has_gpus(shared) ? "over NCCL " : "", where, format_bandwidth(link.bandwidth),
                     format_latency(link.latency));
}

using Json = nlohmann::ordered_json;

// The setup to measure: the model as a single stage.
runtime::Setup measuring_setup(const Config& config) {
  Config alone = config;
  alone.pipeline = {};
  alone.pipeline.schedule = config.pipeline.schedule;
  alone.pipeline.stages = 1;
  alone.pipeline.predict = config.pipeline.predict;
  alone.pipeline.shard_state = config.pipeline.shard_state;
  return runtime::prepare(alone);
}

// Names of the devices to plan for: those of the configuration, or all cores.
std::vector<std::string> names_of_devices(const Config& config) {
  return config.devices.empty() ? device::core_names() : single_devices(config.devices);
}

std::string describe(const planner::Plan& plan) {
  return fmt::format("{} with {} stages x {} replicas, m={} microbatches of {}, e={}",
                     schedule::name(plan.shape.schedule), plan.stages.size(), plan.shape.replicas,
                     plan.shape.microbatches, plan.shape.microbatch, plan.shape.extra);
}

// Budget of the trials: a tenth of the run, at least half a minute.
double seconds_for_trials(const Config& config, const planner::Plan& plan) {
  constexpr double kShort = 30, kShare = 0.1;
  return std::max(kShort, kShare * config.train.updates * plan.update_seconds);
}

// The number of plans that can have two turns each.
std::size_t affordable(const std::vector<planner::Plan>& plans, const std::vector<Config>& runs,
                       double seconds) {
  double round = 0;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    round += trial_updates(runs[i]) * plans[i].update_seconds;
    if (2 * round > seconds) return i;
  }
  return plans.size();
}

// The plans' rates over the whole run, `whole` times those after a synchronous start: measured by trials (0
// without one), or the model's if trials would take too long.
std::vector<double> rates_of(const std::vector<planner::Plan>& plans, const std::vector<Config>& runs,
                             const std::vector<double>& whole, double tolerance,
                             const std::function<void(const std::string&)>& say) {
  std::vector<double> rates;
  for (std::size_t i = 0; i < plans.size(); ++i) rates.push_back(whole[i] * plans[i].tokens_per_s);
  if (plans.size() == 1) return rates;
  const double seconds = seconds_for_trials(runs.front(), plans.front());
  const std::size_t tried = affordable(plans, runs, seconds);
  if (tried < 2) {
    say(fmt::format("{} plans are near one another; to try them would take too much of the run",
                    plans.size()));
    return rates;
  }
  say(fmt::format("{} plans are near one another: {} run in turn, {} updates each time", plans.size(),
                  tried < plans.size() ? fmt::format("{} are", tried) : "they are",
                  trial_updates(runs.front())));
  const auto results = interleave_trials(tried, {.seconds = seconds, .tolerance = tolerance}, [&](auto i) {
    Trial turn = try_run(runs[i]);
    turn.tokens_per_s *= whole[i];
    return turn;
  });
  std::ranges::fill(rates, 0);
  for (std::size_t i = 0; i < tried; ++i) {
    const TrialResult& result = results[i];
    std::string line =
        fmt::format("  {}: forecast {} tokens/s, measured {}", describe(plans[i]),
                    format_count(plans[i].tokens_per_s), format_count(result.tokens_per_s / whole[i]));
    if (result.turns > 1) line += fmt::format(" in {} turns", result.turns);
    if (whole[i] < 0.99) {
      line += fmt::format("; {} over the run, with its synchronous start", format_count(result.tokens_per_s));
    }
    say(line);
    if (!result.left_out) rates[i] = result.tokens_per_s;
  }
  return rates;
}

Forecast plan_for_processes(const Config& config, const planner::Problem& problem,
                            const planner::Profile& profile, double synchronous_share,
                            const DevicesOfProcesses& shared,
                            const std::function<void(const std::string&)>& say) {
  const std::vector<PlacedPlan> placed = plans_to_share(problem, {}, shared);
  if (placed.empty()) {
    fail_input(
        "plan: auto finds no way to train this model in {} processes with {} devices; twobw plan explains "
        "why",
        shared.processes(), shared.names.size());
  }
  std::vector<planner::Plan> plans;
  std::vector<double> rates;
  for (const auto& [one, plan] : placed) {
    plans.push_back(plan);
    rates.push_back(plan.tokens_per_s * planner::with_synchronous_start(one, plan, 1, synchronous_share));
  }
  const planner::Plan& plan = plans[planner::prefer_by_rates({}, plans, rates)];
  const int each = plan.shape.workers() / shared.processes();
  for (const std::string& line : describe_links(shared)) say(line);
  Config run = planner::with_plan(config, plan, {});
  for (int rank = 0; rank < shared.processes(); ++rank) {
    for (const std::string& name : devices_of(shared, rank, each)) run.devices.push_back(name);
  }
  validate(run);
  say(fmt::format("planned for {} processes: {}; forecast {} tokens/s", shared.processes(), describe(plan),
                  format_count(plan.tokens_per_s)));
  return {.config = run, .plan = plan, .profile = profile};
}

Json held_against(double forecast, double measured) {
  return {{"forecast", forecast}, {"measured", measured}, {"ratio", measured > 0 ? forecast / measured : 0}};
}

}  // namespace

std::vector<std::string> devices_of(const DevicesOfProcesses& shared, int rank, std::ptrdiff_t count) {
  const std::ptrdiff_t each = shared.each();
  const auto first = shared.names.begin() + rank * each;
  return {first, first + (count < 0 ? each : count)};
}

std::vector<GpuSlice> first_gpus(const DevicesOfProcesses& shared) {
  std::vector<GpuSlice> gpus;
  for (int rank = 0; has_gpus(shared) && rank < shared.processes(); ++rank)
    gpus.push_back(parse_gpu(devices_of(shared, rank, 1).front()).front());
  return gpus;
}

SharedCluster shared_cluster(const planner::Cluster& own, const DevicesOfProcesses& shared, int each) {
  const std::vector<std::vector<int>> nodes = ranks_by_node(shared, each);
  const bool several_hosts = ranks_by_host(shared.hosts).size() > 1;
  const LinksByHost links = links_by_host(shared.links, shared.hosts);
  const planner::LinkSpec inside = slowest(links.inside);
  const bool alone = std::ranges::all_of(nodes, [](const auto& ranks) { return ranks.size() == 1; });
  SharedCluster result{.cluster = own, .nodes = std::vector<int>(shared.hosts.size())};
  result.cluster.name = fmt::format("{} processes", shared.processes());
  result.cluster.nodes.clear();
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    for (const int rank : nodes[node]) result.nodes[static_cast<std::size_t>(rank)] = static_cast<int>(node);
    const int count = static_cast<int>(nodes[node].size()) * each;
    result.cluster.nodes.push_back({.name = fmt::format("node{}", node),
                                    .islands = {{.kind = 0, .count = count}},
                                    .link = alone ? own.nodes.front().link : inside});
  }
  result.cluster.network = several_hosts ? slowest(links.between) : inside;
  result.cluster.network.shared = several_hosts;  // all processes of a host use one interface
  return result;
}

std::vector<PlacedPlan> plans_to_share(const planner::Problem& problem,
                                       const planner::Preferences& preferences,
                                       const DevicesOfProcesses& shared) {
  const int most = has_gpus(shared) ? transport::kMostReplicasOnGpus : problem.batch;
  std::vector<PlacedPlan> plans;
  for (int each = 1; each <= shared.each(); ++each) {
    const SharedCluster where = shared_cluster(problem.cluster, shared, each);
    const int workers = each * shared.processes();
    for (int replicas = 1; replicas <= workers; ++replicas) {
      if (workers % replicas != 0 || replicas > std::min(problem.batch, most)) continue;
      if (workers / replicas > std::ssize(problem.layers)) continue;
      planner::Problem one = problem;
      one.cluster = where.cluster;
      one.fixed.stages = workers / replicas;
      one.fixed.replicas = replicas;
      if (auto plan = best_plan(one, preferences, where)) plans.push_back({std::move(one), std::move(*plan)});
    }
  }
  return plans;
}

std::vector<std::string> describe_links(const DevicesOfProcesses& shared) {
  std::vector<std::string> lines;
  const auto [inside, between] = links_by_host(shared.links, shared.hosts);
  if (!inside.empty()) lines.push_back(describe_link(shared, "processes of a host", slowest(inside)));
  if (!between.empty()) lines.push_back(describe_link(shared, "hosts", slowest(between)));
  return lines;
}

Forecast plan_run(const Config& given, const std::function<void(const std::string&)>& say,
                  const DevicesOfProcesses& shared) {
  constexpr double kNear = 0.15;  // by the model, which does not know losses by waiting
  constexpr int kPlans = 10;
  Config config = given;
  config.devices = shared.processes() > 1 ? devices_of(shared, 0) : runtime::auto_gpus(config, {});
  const runtime::Setup setup = measuring_setup(config);
  const PipelineConfig& pipeline = config.pipeline;
  const int batch = pipeline.batch();
  say("measuring the layers, to plan the run");
  const planner::Profile profile = measure::profile(
      setup, profiled_devices(setup),
      {.sizes = planner::usual_microbatches(std::min(batch, 16), {}),
       .recomputation = setup.devices.front().gpu.has_value()},  // on cores it is the forward again
      {.on_note = say});
  planner::Cluster cluster = measure::available_cluster(config.devices, profile);
  auto costs = planner::measured_tables(config, cluster, profile);
  planner::Problem problem = planner::problem_of(config, std::move(cluster), std::move(costs));
  problem.batch = batch;
  const double share = std::min(1.0, 1.0 * pipeline.sync_updates / config.train.updates);
  if (shared.processes() > 1) return plan_for_processes(config, problem, profile, share, shared, say);
  const planner::Preferences preferences;
  const planner::SearchResult result = planner::search_with(problem, preferences);
  if (!result.best) {
    fail_input("plan: auto finds no way to train this model here:\n{}",
               planner::report(problem, result, config.model.family, false));
  }
  const std::vector<planner::Plan> plans = planner::contenders(problem, preferences, result, kNear, kPlans);
  std::vector<Config> runs;
  std::vector<double> whole;
  for (const planner::Plan& plan : plans) {
    runs.push_back(planner::with_plan(config, plan, names_of_devices(config)));
    validate(runs.back());
    whole.push_back(planner::with_synchronous_start(problem, plan, 1, share));
  }
  const std::vector<double> rates = rates_of(plans, runs, whole, preferences.tolerance, say);
  const std::size_t chosen = planner::prefer_by_rates(preferences, plans, rates);
  say(fmt::format("planned: {}; forecast {} tokens/s", describe(plans[chosen]),
                  format_count(plans[chosen].tokens_per_s)));
  return {.config = runs[chosen], .plan = plans[chosen], .profile = profile};
}

Json compare(const planner::Plan& plan, const Json& summary) {
  Json stages = Json::array();
  for (std::size_t r = 0; r < plan.stages.size(); ++r) {
    const Footprint& memory = plan.stages[r].memory;
    const Json& measured = summary["stages"][r];
    Json terms = Json::object();
    for (int i = 0; i < kTerms; ++i) {
      const std::string term(name(static_cast<Term>(i)));
      terms[term] = held_against(memory.bytes[i], measured["memory"].value(term, 0.0));
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

}  // namespace twobw::measure
