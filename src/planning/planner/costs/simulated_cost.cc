#include "planning/planner/costs/simulated_cost.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "planning/planner/costs/layer_sums.h"
#include "planning/planner/costs/stage_timing.h"

namespace twobw::planner {
namespace {

// A channel over a link, and the bytes that pass per transfer: those of all replicas that send at once.
struct Passage {
  int channel = -1;
  double bytes = 0;
};

class Channels {
 public:
  Channels(const Cluster& cluster, simulator::System& system) : cluster_(cluster), system_(system) {}

  // Transfers of replica 0 from one stage to another, of `bytes` each.
  Passage between(const StagePlan& from, const StagePlan& to, double bytes) {
    const int node = from.nodes.front();
    const bool inside = node == to.nodes.front();
    const LinkSpec& link = inside ? cluster_.nodes[node].link : cluster_.network;
    const double busy = transfer_between(cluster_, from, to, bytes).busy;
    const double passing = busy > 0 ? busy * link.bandwidth : bytes;
    if (!link.shared) return {add(link), passing};
    return {shared(link, node, inside, inside && from.first_layer < to.first_layer), passing};
  }

  // Sums over replicas on several nodes that occupy the node's end of the network for `busy` seconds.
  Passage between_replicas(const StagePlan& stage, double busy) {
    if (busy <= 0) return {};
    return {shared(cluster_.network, stage.nodes.front(), false, false), busy * cluster_.network.bandwidth};
  }

 private:
  int shared(const LinkSpec& link, int node, bool inside, bool forward) {
    const auto [found, added] =
        shared_.try_emplace(std::tuple{node, inside, forward}, static_cast<int>(system_.channels.size()));
    return added ? add(link) : found->second;
  }

  int add(const LinkSpec& link) {
    system_.channels.push_back({.latency = link.latency, .bandwidth = link.bandwidth});
    return static_cast<int>(system_.channels.size()) - 1;
  }

  const Cluster& cluster_;
  simulator::System& system_;
  std::map<std::tuple<int, bool, bool>, int> shared_;  // node, inside it, direction
};

// Round trip over the slowest link in use.
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
  // The instruction list depends only on whether there are other replicas.
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
    const bool switches = schedule::switches_to_true_weights({.shape = shape_of(plan)});
    const Passage sum = channels.between_replicas(stage, timing.sum);
    system.stages.push_back({.forward = timing.forward,
                             .backward = timing.backward,
                             .step = timing.step - timing.predict + (switches ? gather : 0),
                             .predict = timing.predict,
                             .reduce = timing.reduce - timing.sum,
                             .reduce_bytes = sum.bytes,
                             .reduce_channel = sum.channel});
    if (r + 1 == plan.stages.size()) continue;
    const StagePlan& next = plan.stages[r + 1];
    const Passage forward = channels.between(stage, next, load.output);
    const Passage backward = channels.between(next, stage, load.output);
    system.boundaries.push_back({.activation_bytes = forward.bytes,
                                 .gradient_bytes = backward.bytes,
                                 .forward_channel = forward.channel,
                                 .backward_channel = backward.channel});
  }
  const StagePlan &first = plan.stages.front(), &last = plan.stages.back();
  const double tied = std::min(load_of(first).tied, load_of(last).tied);
  if (tied > 0) {
    const Passage forward = channels.between(first, last, gradient_bytes * tied);
    const Passage backward = channels.between(last, first, gradient_bytes * tied);
    system.tie_bytes = forward.bytes;
    system.tie_forward_channel = forward.channel;
    system.tie_backward_channel = backward.channel;
  }
  system.agree = agreement_seconds(problem.cluster, plan);
  return system;
}

double simulated_update(const Problem& problem, const Plan& plan) {
  return simulator::steady_update_seconds(spec_of_one_replica(plan), system_of(problem, plan));
}

double simulated_tokens_per_s(const Problem& problem, const Plan& plan) {
  const double sequences = plan.sequences_per_s * plan.update_seconds;
  return sequences / simulated_update(problem, plan) * problem.context;
}

}  // namespace twobw::planner
