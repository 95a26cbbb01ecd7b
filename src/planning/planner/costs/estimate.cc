#include "planning/planner/costs/estimate.h"

#include <algorithm>
#include <map>
#include <span>
#include <vector>

#include "core/base/error.h"
#include "planning/planner/costs/time_model.h"

namespace twobw::planner {
namespace {

// The foremost stage with a part in the tie, if there is one, exchanges it with the last.
void add_tie(const Problem& problem, const Plan& plan, std::span<const StageLoad> loads,
             std::span<StageTiming> timings) {
  const auto first = std::ranges::find_if(loads, [](const StageLoad& load) { return load.tied > 0; });
  if (first == loads.end()) return;
  const auto r = static_cast<std::size_t>(first - loads.begin());
  bool together = true;
  for (std::size_t q = r; q < plan.stages.size(); ++q)
    together &= plan.stages[q].nodes == plan.stages[r].nodes;
  const auto exchange = [&](std::size_t end) {
    const Site site = site_of(problem.cluster, plan.stages[end]);
    const LinkSpec& link = together ? site.inside : problem.cluster.network;
    const Transfer tie =
        tie_exchange(problem, Setting{.shape = plan.shape}, link, site.per_node, first->tied);
    timings[end].tie_leaves = !together;
    timings[end].tie_shares = link.shared;
    timings[end].tie_busy = tie.busy;
    return tie.seconds;
  };
  if (!together) exchange(plan.stages.size() - 1);
  timings[r].tie = exchange(r);
}

void check(const Problem& problem, const Plan& plan, const LayerSumsByKind& sums) {
  int layer = 0;
  for (const StagePlan& stage : plan.stages) {
    TWOBW_ASSERT(stage.first_layer == layer && stage.last_layer > layer, "layers [{}, {}) after {}",
                 stage.first_layer, stage.last_layer, layer);
    TWOBW_ASSERT(std::ssize(stage.nodes) == plan.shape.replicas && stage.devices.size() == stage.nodes.size(),
                 "{} nodes and {} devices for {} replicas", stage.nodes.size(), stage.devices.size(),
                 plan.shape.replicas);
    TWOBW_ASSERT(sums[stage.kind] != nullptr, "no costs of {} sequences on device kind {}",
                 plan.shape.microbatch, stage.kind);
    layer = stage.last_layer;
  }
  TWOBW_ASSERT(layer == std::ssize(problem.layers), "{} of {} layers placed", layer, problem.layers.size());
}

}  // namespace

Estimate evaluate(const Problem& problem, Plan plan) {
  std::map<int, LayerSums> by_kind;
  LayerSumsByKind sums(problem.costs.size(), nullptr);
  for (const StagePlan& stage : plan.stages) {
    const CostColumn* column = column_of(problem, stage.kind, plan.shape.microbatch);
    if (column != nullptr)
      sums[stage.kind] = &by_kind.try_emplace(stage.kind, problem.layers, *column).first->second;
  }
  return evaluate(problem, std::move(plan), sums);
}

Estimate evaluate(const Problem& problem, Plan plan, const LayerSumsByKind& sums) {
  check(problem, plan, sums);
  plan.shape = shape_of(plan);
  const int d = static_cast<int>(std::ssize(plan.stages));
  plan.shape.step_slack = problem.fixed.step_slack.value_or(1);
  Setting setting{.shape = plan.shape};
  std::vector<StageLoad> loads;
  std::vector<StageTiming> timings;
  for (int r = 0; r < d; ++r) {
    const StagePlan& stage = plan.stages[r];
    loads.push_back(sums[stage.kind]->of(stage.first_layer, stage.last_layer));
    StageTiming timing =
        timing_of(problem, setting, site_of(problem.cluster, stage), loads[r], stage.recompute);
    timing.node = stage.nodes.front();
    if (r + 1 < d) {
      const StagePlan& next = plan.stages[r + 1];
      const Transfer send = transfer_between(problem.cluster, stage, next, loads[r].output);
      timing.send = send.seconds;
      timing.busy = send.busy;
      timing.leaves = next.nodes.front() != timing.node;
      timing.shares =
          timing.leaves ? problem.cluster.network.shared : problem.cluster.nodes[timing.node].link.shared;
    }
    timings.push_back(timing);
  }
  add_tie(problem, plan, loads, timings);
  if (!problem.fixed.step_slack)
    setting.shape.step_slack = plan.shape.step_slack =
        slack_that_hides(setting, timings, sharing_of(problem));
  const schedule::Spec spec = spec_of(setting, d);
  const StateBytes& state = state_of(problem, setting.shape.schedule);
  for (int r = 0; schedule::switches_to_true_weights(spec) && r < d; ++r)
    timings[r].step +=
        gather_seconds(problem, setting, site_of(problem.cluster, plan.stages[r]), loads[r].parameters);
  Estimate estimate;
  for (int r = 0; r < d; ++r) {
    StagePlan& stage = plan.stages[r];
    const StageTiming& timing = timings[r];
    stage.forward = timing.forward;
    stage.backward = timing.backward;
    stage.step = timing.step;
    stage.reduce = timing.reduce + timing.tie;
    stage.send = timing.send;
    stage.memory = footprint(spec, r, loads[r], state, stage.recompute);
    stage.capacity = problem.cluster.kinds[stage.kind].memory;
    const double over = excess(stage.memory.total(), stage.capacity * (1 - problem.margin));
    if (r == 0 || over > estimate.over) {
      estimate.over = over;
      estimate.tightest = r;
    }
    estimate.footprint += plan.shape.replicas * stage.memory.total();
    plan.modelled |= problem.costs[stage.kind].modelled;
  }

  plan.update_seconds = update_seconds(setting, timings, sharing_of(problem));
  const double sequences =
      static_cast<double>(plan.shape.microbatch) * plan.shape.replicas * plan.shape.microbatches;
  plan.sequences_per_s = sequences / plan.update_seconds;
  plan.tokens_per_s = plan.sequences_per_s * problem.context;
  estimate.hoped_seconds =
      problem.links ? update_seconds(setting, timings, Sharing::Least) : plan.update_seconds;
  plan.utilisation = 0;
  for (StagePlan& stage : plan.stages) {
    const double busy = plan.shape.microbatches * (stage.forward + stage.backward) + stage.step;
    stage.busy = busy / plan.update_seconds;
    plan.utilisation += stage.busy / d;
  }
  estimate.plan = std::move(plan);
  return estimate;
}

}  // namespace twobw::planner
