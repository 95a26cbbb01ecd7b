#include "planner/costs/simulation.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "planner/costs/layer_sums.h"
#include "planner/costs/time_model.h"

namespace twobw::planner {
namespace {

class Channels {
 public:
  Channels(const Cluster& cluster, simulator::System& system) : cluster_(cluster), system_(system) {}

  // For what replica 0 sends from one stage to another, `bytes` at a time.
  int between(const StagePlan& from, const StagePlan& to, double bytes) {
    const bool inside = from.nodes.front() == to.nodes.front();
    const LinkSpec& link = inside ? cluster_.nodes[from.nodes.front()].link : cluster_.network;
    const Transfer one = transfer_between(cluster_, from, to, bytes);
    const simulator::Channel channel{.latency = link.latency,
                                     .bandwidth = one.busy > 0 ? bytes / one.busy : link.bandwidth};
    if (!link.shared) return add(channel);
    const bool forward = from.first_layer < to.first_layer;
    const auto [found, added] = shared_.try_emplace(std::tuple{from.nodes.front(), inside, inside && forward},
                                                    system_.channels.size());
    return added ? add(channel) : found->second;
  }

 private:
  int add(const simulator::Channel& channel) {
    system_.channels.push_back(channel);
    return static_cast<int>(system_.channels.size()) - 1;
  }

  const Cluster& cluster_;
  simulator::System& system_;
  std::map<std::tuple<int, bool, bool>, int> shared_;  // node, inside it, direction
};

// There and back over the slowest link in use.
double agreement_seconds(const Cluster& cluster, const Plan& plan) {
  double latency = 0;
  const int first = plan.stages.front().nodes.front();
  for (const StagePlan& stage : plan.stages) {
    for (int node : stage.nodes) {
      const bool alone = plan.stages.size() * stage.nodes.size() == 1;
      if (!alone) latency = std::max(latency, cluster.nodes[node].link.latency);
      if (node != first) latency = std::max(latency, cluster.network.latency);
    }
  }
  return 2 * latency;
}

}  // namespace

schedule::Spec spec_of_one_replica(const Plan& plan) {
  schedule::Spec spec{.shape = plan.shape};
  // That there are others is all that one replica's list depends on.
  spec.shape.replicas = std::min(spec.shape.replicas, 2);
  return spec;
}

simulator::System system_of(const Problem& problem, const Plan& plan) {
  const double gradient_bytes = state_of(problem, plan.shape.schedule).gradients;
  simulator::System system;
  Channels channels(problem.cluster, system);
  std::map<int, LayerSums> sums;  // by kind of device
  const auto load_of = [&](const StagePlan& stage) {
    return sums
        .try_emplace(stage.kind, problem.layers, *column_of(problem, stage.kind, plan.shape.microbatch))
        .first->second.of(stage.first_layer, stage.last_layer);
  };
  for (std::size_t r = 0; r < plan.stages.size(); ++r) {
    const StagePlan& stage = plan.stages[r];
    const StageLoad load = load_of(stage);
    const Setting setting{.shape = plan.shape};
    const Site site = site_of(problem.cluster, stage);
    const StageTiming timing = timing_of(problem, setting, site, load, stage.recompute);
    const double gather = gather_seconds(problem, setting, site, load.parameters);
    const double computed = problem.costs[stage.kind].predict_per_parameter * load.parameters;
    const double predict = plan.shape.predicts() ? computed / plan.shape.owners() + gather : 0;
    const bool settles = schedule::settles({.shape = shape_of(plan)});
    system.stages.push_back({.forward = timing.forward,
                             .backward = timing.backward,
                             .step = timing.step - predict + (settles ? gather : 0),
                             .predict = predict,
                             .reduce = timing.reduce});
    if (r + 1 == plan.stages.size()) continue;
    const StagePlan& next = plan.stages[r + 1];
    system.boundaries.push_back({.activation_bytes = load.output,
                                 .gradient_bytes = load.output,
                                 .forward_channel = channels.between(stage, next, load.output),
                                 .backward_channel = channels.between(next, stage, load.output)});
  }
  const StagePlan &first = plan.stages.front(), &last = plan.stages.back();
  const double tied = std::min(load_of(first).tied, load_of(last).tied);
  if (tied > 0) {
    system.tie_bytes = gradient_bytes * tied;
    system.tie_forward_channel = channels.between(first, last, system.tie_bytes);
    system.tie_backward_channel = channels.between(last, first, system.tie_bytes);
  }
  system.agree = agreement_seconds(problem.cluster, plan);
  return system;
}

double simulated_update(const Problem& problem, const Plan& plan) {
  return simulator::simulate(spec_of_one_replica(plan), system_of(problem, plan)).update_seconds;
}

double simulated_tokens_per_s(const Problem& problem, const Plan& plan) {
  const double sequences = plan.sequences_per_s * plan.update_seconds;
  return sequences / simulated_update(problem, plan) * problem.context;
}

}  // namespace twobw::planner
