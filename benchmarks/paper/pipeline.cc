#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "core/simulator/simulate.h"
#include "planning/architecture/families.h"
#include "planning/planner/costs/estimate.h"
#include "planning/planner/costs/roofline.h"
#include "planning/planner/costs/stage_timing.h"
#include "systems.h"

namespace twobw::paper {
namespace {

using planner::Plan;
using planner::Problem;
using schedule::Kind;

constexpr double kElement = 2;  // bytes, of fp16
constexpr int kBetweenFlushes = 8;

Kind kind_of(System system) {
  if (system == System::GPipe) return Kind::GPipe;
  if (system == System::Flush) return Kind::Flush;
  return system == System::TwoBW ? Kind::TwoBW : Kind::Sequential;
}

Problem problem_of(const ModelConfig& model, const planner::Cluster& cluster) {
  const architecture::Model layers = architecture::model_of(model);
  Problem problem;
  problem.cluster = cluster;
  problem.layers = planner::shapes_of(layers);
  problem.costs = {planner::modelled_costs(layers, cluster.kinds[0], kPrecision, kState, model.context,
                                           {kMicrobatches.begin(), kMicrobatches.end()})};
  problem.state = kState;
  problem.context = model.context;
  problem.fixed.extra = 0;                       // the published systems have none
  problem.fixed.double_buffer_gradients = true;  // nor do their updates wait
  problem.fixed.predict = false;                 // and they compute on weights that are one update old
  return problem;
}

planner::Cluster devices_of(const Row& row, const Fitted& fitted) {
  return cluster(row.nodes, kDevicesPerNode, fitted, fitted.network.transfers);
}

// The plan's stages and transfers; what several pipelines share of a link is in the transfers' times.
simulator::System system_of(const Problem& problem, const Plan& plan) {
  simulator::System system;
  const planner::CostColumn& column = *planner::column_of(problem, 0, plan.shape.microbatch);
  for (std::size_t r = 0; r < plan.stages.size(); ++r) {
    const planner::StagePlan& stage = plan.stages[r];
    system.stages.push_back(
        {.forward = stage.forward, .backward = stage.backward, .step = stage.step, .reduce = stage.reduce});
    if (r + 1 == plan.stages.size()) break;
    const double bytes = column.layers[stage.last_layer - 1].output;
    const planner::Transfer transfer =
        planner::transfer_between(problem.cluster, stage, plan.stages[r + 1], bytes);
    const int channel = static_cast<int>(system.channels.size());
    system.boundaries.push_back({bytes, bytes, channel, channel + 1});
    system.channels.insert(system.channels.end(), 2,
                           {.latency = transfer.seconds - transfer.busy, .bandwidth = bytes / transfer.busy});
  }
  return system;
}

double simulated_update(const Problem& problem, const Plan& plan) {
  const schedule::Spec spec = {.shape = {.schedule = plan.shape.schedule,
                                         .stages = static_cast<int>(plan.stages.size()),
                                         .microbatches = plan.shape.microbatches,
                                         .extra = plan.shape.extra,
                                         .double_buffer_gradients = plan.shape.double_buffer_gradients,
                                         .predict = plan.shape.predict}};
  return simulator::simulate(spec, system_of(problem, plan)).update_seconds;
}

double sequences(const Plan& plan) {
  return static_cast<double>(plan.shape.microbatch) * plan.shape.microbatches * plan.shape.replicas;
}

void take_better(std::optional<Outcome>& best, Outcome outcome) {
  if (!best || outcome.sequences_per_s > best->sequences_per_s) best = std::move(outcome);
}

std::string describe(const Plan& plan) {
  const auto recomputes = [](const planner::StagePlan& stage) { return stage.recompute; };
  const auto count = std::count_if(plan.stages.begin(), plan.stages.end(), recomputes);
  return fmt::format("b={}{}", plan.shape.microbatch, count > 0 ? " recomputing" : "");
}

std::vector<int> first_layers_of_blocks(const Problem& problem) {
  std::vector<int> layers;
  for (int i = 0; i < std::ssize(problem.layers); ++i) {
    if (problem.layers[i].kind == "attention_in") layers.push_back(i);
  }
  return layers;
}

// As the paper cuts a model: as many blocks in every stage. The replicas of a stage share a node, for the
// sums of their gradients; so the stages of a pipeline of eight are on eight nodes.
Plan plan_of(const Problem& problem, const Row& row, Kind kind, int b, bool recompute) {
  Plan plan{.shape = {.schedule = kind, .replicas = row.replicas, .microbatch = b, .predict = false}};
  plan.shape.microbatches = row.batch / (b * row.replicas);
  const std::vector<int> blocks = first_layers_of_blocks(problem);
  const int count = static_cast<int>(blocks.size()), layers = static_cast<int>(problem.layers.size());
  int next = 0;
  for (int r = 0; r < row.stages; ++r) {
    planner::StagePlan stage{.first_layer = next, .recompute = recompute};
    next = r + 1 == row.stages ? layers : blocks[(r + 1) * count / row.stages];
    stage.last_layer = next;
    for (int replica = 0; replica < row.replicas; ++replica) {
      const int device = r * row.replicas + replica;
      stage.nodes.push_back(device / kDevicesPerNode);
      stage.devices.push_back(device % kDevicesPerNode);
    }
    plan.stages.push_back(std::move(stage));
  }
  return plan;
}

}  // namespace

std::optional<Outcome> run_pipeline(System system, const Row& row, const Fitted& fitted) {
  const Problem problem = problem_of(model(row.model), devices_of(row, fitted));
  const Kind kind = kind_of(system);
  std::optional<Outcome> best;
  for (const int b : kMicrobatches) {
    for (const bool recompute : {false, true}) {
      const int m = row.batch / (b * row.replicas);
      const schedule::Spec spec = {.shape = {.schedule = kind, .stages = row.stages, .predict = false}};
      if (m < schedule::smallest_microbatches(spec)) continue;
      const planner::Estimate estimate =
          planner::evaluate(problem, plan_of(problem, row, kind, b, recompute));
      if (!estimate.fits()) continue;
      const Plan& plan = estimate.plan;
      take_better(best, {sequences(plan) / simulated_update(problem, plan), describe(plan)});
    }
  }
  return best;
}

// GPipe always recomputes. The published one gains nothing from a larger batch, on 8 GPUs either: it must
// work through a batch in pieces of equal size, with a flush after each. At the published distance from 2BW
// on 8 GPUs, m / (m + d-1) x 3/4 = 18/44, they have about 8 microbatches, as modelled here.
std::optional<Outcome> run_gpipe(const Row& row, const Fitted& fitted) {
  const Problem problem = problem_of(model(row.model), devices_of(row, fitted));
  std::optional<Outcome> best;
  for (const int b : kMicrobatches) {
    Plan plan = plan_of(problem, row, Kind::GPipe, b, true);
    const int all = plan.shape.microbatches;
    plan.shape.microbatches = kBetweenFlushes;
    const planner::Estimate estimate = planner::evaluate(problem, plan);
    if (all < kBetweenFlushes || !estimate.fits()) continue;
    plan = estimate.plan;
    double update_end = 0;
    for (planner::StagePlan& stage : plan.stages) {
      update_end = std::max(update_end, stage.reduce + stage.step);
      stage.reduce = stage.step = 0;
    }
    const double pieces = static_cast<double>(all) / plan.shape.microbatches;
    const double sequences = static_cast<double>(b) * all * row.replicas;
    take_better(best, {sequences / (pieces * simulated_update(problem, plan) + update_end),
                       fmt::format("b={} recomputing, a flush every {}", b, plan.shape.microbatches)});
  }
  return best;
}

std::optional<Outcome> run(System system, const Row& row, const Fitted& fitted) {
  if (system == System::Tensor) return run_tensor(row, fitted);
  return system == System::GPipe ? run_gpipe(row, fitted) : run_pipeline(system, row, fitted);
}

double parameters(const ModelConfig& model) {
  return static_cast<double>(architecture::parameter_count(architecture::model_of(model)));
}

// Every stage takes as many blocks as its memory holds; the memory of the others does not matter.
int most_blocks(ModelConfig model, int stages, int b) {
  const Row row = {.batch = b * std::max(1, stages - 1), .stages = stages, .replicas = 1};
  const planner::Cluster devices =
      cluster((stages + kDevicesPerNode - 1) / kDevicesPerNode, kDevicesPerNode, {});
  std::vector<int> most(stages, 0);
  bool some_fit = true;
  for (int blocks = 1; some_fit; ++blocks) {
    model.layers = blocks * stages;
    const Problem problem = problem_of(model, devices);
    const Plan plan = planner::evaluate(problem, plan_of(problem, row, Kind::TwoBW, b, true)).plan;
    some_fit = false;
    for (int r = 0; r < stages; ++r) {
      const planner::StagePlan& stage = plan.stages[r];
      if (stage.memory.total() > (1 - problem.margin) * stage.capacity) continue;
      most[r] = blocks;
      some_fit = true;
    }
  }
  if (std::find(most.begin(), most.end(), 0) != most.end()) return 0;
  return std::accumulate(most.begin(), most.end(), 0);
}

}  // namespace twobw::paper
