#include "planner/costs/time_model.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "planner/costs/layer_sums.h"

namespace twobw::planner {
namespace {

using schedule::Kind;

// Seconds of one microbatch alone, through all stages and back.
double round_trip(std::span<const StageTiming> stages) {
  double seconds = 0;
  for (const StageTiming& stage : stages) seconds += stage.compute() + 2 * stage.send;
  return seconds;
}

// From the last stage to the first.
double way_back(std::span<const StageTiming> stages) {
  double seconds = 0;
  for (const StageTiming& stage : stages) seconds += stage.backward + stage.send;
  return seconds;
}

double longest_tail(std::span<const StageTiming> stages) {
  double longest = 0;
  for (const StageTiming& stage : stages) longest = std::max(longest, stage.reduce + stage.step);
  return longest;
}

// P, with loops only through stages that may have to wait for room.
double period(const Setting& setting, std::span<const StageTiming> stages) {
  const int d = static_cast<int>(std::ssize(stages));
  const schedule::Spec spec = spec_of(setting, d);
  double longest = 0;
  for (int r = 0; r < d; ++r) {
    longest = std::max({longest, stages[r].compute(), stages[r].busy});
    const int room = schedule::in_flight_bound(spec, r);
    if (setting.shape.schedule == Kind::Flush && room >= setting.shape.microbatches) continue;
    double loop = 0;
    for (int q = r; q < d; ++q) {
      loop += stages[q].compute();
      longest = std::max(longest, loop / (room - schedule::in_flight_bound(spec, q) + 1));
      loop += 2 * stages[q].send;
    }
  }
  return longest;
}

double two_bw(const Setting& setting, std::span<const StageTiming> stages) {
  const int d = static_cast<int>(std::ssize(stages));
  const schedule::Spec spec = spec_of(setting, d);
  const double pace = period(setting, stages);
  double longest = pace;
  for (int r = 0; r < d; ++r) {
    const double share =
        update_share(setting, schedule::in_flight_bound(spec, r), schedule::slack(spec, r), stages[r]);
    longest = std::max(longest, stages[r].compute() + share);
  }
  const double update = setting.shape.microbatches * longest;
  if (!setting.one_gradient()) return update;
  return std::max(update, way_back(stages) + (setting.shape.microbatches - 1) * pace + longest_tail(stages));
}

double gpipe(const Setting& setting, std::span<const StageTiming> stages) {
  double forward = 0, backward = 0;
  for (const StageTiming& stage : stages) {
    forward = std::max({forward, stage.forward, stage.busy});
    backward = std::max({backward, stage.backward, stage.busy});
  }
  return round_trip(stages) + (setting.shape.microbatches - 1) * (forward + backward) + longest_tail(stages);
}

// Of the stage's share in a tie, if it is the foremost that has one.
double tie_seconds(const Problem& problem, const Plan& plan, std::size_t r, double tied) {
  if (tied <= 0) return 0;
  for (int layer = 0; layer < plan.stages[r].first_layer; ++layer) {
    if (problem.layers[layer].tied > 0) return 0;
  }
  const StagePlan& stage = plan.stages[r];
  bool together = true;
  for (std::size_t q = r; q < plan.stages.size(); ++q) together &= plan.stages[q].nodes == stage.nodes;
  const Site site = site_of(problem.cluster, stage);
  const LinkSpec& link = together ? site.inside : problem.cluster.network;
  return tie_exchange(problem, Setting{.shape = plan.shape}, link, site.per_node, tied).seconds;
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

schedule::Spec spec_of(const Setting& setting, int stages) {
  schedule::Spec spec{.shape = setting.shape};
  spec.shape.stages = stages;
  spec.shape.extra += setting.extra_a_boundary * (stages - 1);
  return spec;
}

bool stalls(const Setting& setting) {
  return setting.shape.schedule == Kind::Flush || setting.one_gradient();
}

const StateBytes& state_of(const Problem& problem, schedule::Kind kind) {
  return !schedule::is_delayed(kind) && problem.synchronous_state ? *problem.synchronous_state
                                                                  : problem.state;
}

const CostColumn* column_of(const Problem& problem, int kind, int microbatch) {
  for (const CostColumn& column : problem.costs[kind].columns) {
    if (column.microbatch == microbatch) return &column;
  }
  return nullptr;
}

double update_share(const Setting& setting, int in_flight, const StageTiming& stage) {
  return update_share(setting, in_flight, setting.shape.microbatches - in_flight + 1, stage);
}

double update_share(const Setting& setting, int in_flight, int slack, const StageTiming& stage) {
  const int gradients = setting.shape.microbatches - in_flight + 1;
  double wait = std::max(0.0, stage.reduce - slack * stage.compute());
  if (setting.shape.predicts() && setting.shape.replicas > 1) {
    // The sum to predict from is made while one microbatch runs, and passes before the other.
    const int hidden = gradients > 1 ? 1 : 0;
    wait += std::max(0.0, stage.reduce - hidden * stage.compute());
    wait = std::max(wait, 2 * stage.reduce - gradients * stage.compute());
  }
  return (stage.step + wait) / setting.shape.microbatches;
}

double update_seconds(const Setting& setting, std::span<const StageTiming> stages) {
  const double others = setting.shape.microbatches - 1;
  switch (setting.shape.schedule) {
    case Kind::TwoBW:
      return two_bw(setting, stages);
    case Kind::Flush:
      return round_trip(stages) + others * period(setting, stages) + longest_tail(stages);
    case Kind::GPipe:
      return gpipe(setting, stages);
    case Kind::Sequential:
      return setting.shape.microbatches * round_trip(stages) + longest_tail(stages);
    case Kind::Stash:
      break;
  }
  TWOBW_ASSERT(false, "no time model of schedule {}", name(setting.shape.schedule));
}

double step_seconds(const CostTable& costs, const Setting& setting) {
  const double predict = setting.shape.predicts() ? costs.predict_per_parameter : 0;
  return (costs.step_per_parameter + predict) / setting.shape.owners();
}

// Half of a ring's way round.
double reduce_seconds(const Setting& setting, double all_reduce) {
  return setting.shape.shards() ? all_reduce / 2 : all_reduce;
}

double gather_seconds(const Problem& problem, const Setting& setting, const Site& site, double parameters) {
  if (!setting.shape.shards()) return 0;
  const StateBytes& state = state_of(problem, setting.shape.schedule);
  return all_reduce_seconds(problem.cluster.network, site, state.weights * parameters) / 2;
}

StageTiming timing_of(const Problem& problem, const Setting& setting, const Site& site, const StageLoad& load,
                      bool recompute) {
  const StateBytes& state = state_of(problem, setting.shape.schedule);
  const CostTable& costs = problem.costs[site.kind];
  // What is tied is summed on all replicas.
  const double summed = load.parameters + (setting.shape.shards() ? load.tied : 0);
  const double all_reduce = all_reduce_seconds(problem.cluster.network, site, state.gradients * summed);
  return {.forward = load.forward,
          .backward = load.backward + (recompute ? load.forward : 0),
          .step = step_seconds(costs, setting) * load.parameters +
                  gather_seconds(problem, setting, site, load.parameters),
          .reduce = reduce_seconds(setting, all_reduce)};
}

Transfer tie_exchange(const Problem& problem, const Setting& setting, const LinkSpec& link, int at_once,
                      double tied) {
  return transfer(link, at_once, state_of(problem, setting.shape.schedule).gradients * tied);
}

int slack_that_hides(const Setting& setting, std::span<const StageTiming> stages) {
  if (!setting.shape.predicts()) return 1;
  const int d = static_cast<int>(std::ssize(stages)), never = std::max(1, setting.shape.microbatches);
  schedule::Spec spec = spec_of(setting, d);
  double least = 1;
  for (int r = 0; r < d; ++r) {
    if (stages[r].reduce <= 0) continue;
    // A stage further on has more: it completes its gradient earlier.
    const int more = schedule::in_flight_bound(spec, 0) - schedule::in_flight_bound(spec, r);
    least = std::max(least, std::ceil(stages[r].reduce / stages[r].compute()) - more);
  }
  if (!(least < never)) return never;
  spec.shape.slack = static_cast<int>(least);
  return schedule::settles(spec) ? spec.shape.slack : never;
}

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
  plan.shape.slack = problem.fixed.slack.value_or(1);
  Setting setting{.shape = plan.shape};
  std::vector<StageLoad> loads;
  std::vector<StageTiming> timings;
  for (int r = 0; r < d; ++r) {
    const StagePlan& stage = plan.stages[r];
    loads.push_back(sums[stage.kind]->of(stage.first_layer, stage.last_layer));
    StageTiming timing =
        timing_of(problem, setting, site_of(problem.cluster, stage), loads[r], stage.recompute);
    timing.reduce += tie_seconds(problem, plan, r, loads[r].tied);
    if (r + 1 < d) {
      const Transfer send = transfer_between(problem.cluster, stage, plan.stages[r + 1], loads[r].output);
      timing.send = send.seconds;
      timing.busy = send.busy;
    }
    timings.push_back(timing);
  }
  if (!problem.fixed.slack) setting.shape.slack = plan.shape.slack = slack_that_hides(setting, timings);
  const schedule::Spec spec = spec_of(setting, d);
  const StateBytes& state = state_of(problem, setting.shape.schedule);
  for (int r = 0; schedule::settles(spec) && r < d; ++r)
    timings[r].step +=
        gather_seconds(problem, setting, site_of(problem.cluster, plan.stages[r]), loads[r].parameters);
  Estimate estimate;
  for (int r = 0; r < d; ++r) {
    StagePlan& stage = plan.stages[r];
    const StageTiming& timing = timings[r];
    stage.forward = timing.forward;
    stage.backward = timing.backward;
    stage.step = timing.step;
    stage.reduce = timing.reduce;
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

  plan.update_seconds = update_seconds(setting, timings);
  const double sequences =
      static_cast<double>(plan.shape.microbatch) * plan.shape.replicas * plan.shape.microbatches;
  plan.sequences_per_s = sequences / plan.update_seconds;
  plan.tokens_per_s = plan.sequences_per_s * problem.context;
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
