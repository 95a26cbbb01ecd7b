#include "planning/planner/search/infeasibility.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/text.h"
#include "planning/planner/search/search.h"
#include "planning/planner/search/space.h"

namespace twobw::planner {
namespace {

using schedule::Kind;

// Whether the problem has a plan. Of all settings the fewest replicas and the smallest microbatches need
// least memory.
bool fits(Problem problem) {
  if (!problem.fixed.replicas) problem.fixed.replicas = 1;
  if (!problem.fixed.microbatch) problem.fixed.microbatch = microbatches_to_try(problem).front();
  if (!problem.fixed.extra) problem.fixed.extra = 0;
  return rank_candidates(problem, {.simulate = 0}).best.has_value();
}

// Weights computed with and activations take half the bytes; a master in fp32 comes on top.
Problem in_half_precision(Problem problem) {
  for (StateBytes* state :
       {&problem.state, problem.synchronous_state ? &*problem.synchronous_state : nullptr}) {
    if (state == nullptr) continue;
    state->weights /= 2;
    state->master = std::max(state->master, 4.0);
  }
  for (CostTable& table : problem.costs) {
    for (CostColumn& column : table.columns) {
      for (LayerCost& layer : column.layers) {
        layer.saved_bytes /= 2;
        layer.kept /= 2;
        layer.output /= 2;
        layer.working /= 2;
      }
    }
  }
  return problem;
}

// The format of 16 bits that all devices have: fp16 where one is of before bf16.
std::string half_precision_of(const Cluster& cluster) {
  const bool without = std::ranges::any_of(cluster.kinds, [](const DeviceKind& kind) {
    return kind.rates.contains("fp16") && !kind.rates.contains("bf16");
  });
  return without ? "fp16" : "bf16";
}

Problem with_nodes(Problem problem, int times) {
  const std::vector<Node> nodes = problem.cluster.nodes;
  for (int i = 1; i < times; ++i) {
    problem.cluster.nodes.insert(problem.cluster.nodes.end(), nodes.begin(), nodes.end());
  }
  return problem;
}

}  // namespace

std::vector<std::string> suggestions(const Problem& problem, const Estimate& closest) {
  std::vector<std::string> result;
  const auto offer = [&](const Problem& changed, std::string text) {
    if (fits(changed)) result.push_back(std::move(text));
  };
  // A smaller margin, where the devices themselves are large enough.
  double margin = 1;
  for (const StagePlan& stage : closest.plan.stages) {
    margin = std::min(margin, 1 - stage.memory.total() / stage.capacity);
  }
  if (margin > 0) {
    result.push_back(fmt::format("a memory margin of {:.1f}% instead of {:.1f}%",
                                 std::floor(1000 * margin) / 10, 100 * problem.margin));
  }
  Problem changed = problem;
  if (problem.fixed.recompute == false) {
    changed.fixed.recompute.reset();
    offer(changed, "recomputation");
  }
  changed = problem;
  if (problem.fixed.double_buffer_gradients == true) {
    changed.fixed.double_buffer_gradients = false;
    offer(changed, "one gradient buffer a stage instead of two");
  }
  changed = problem;
  changed.fixed.microbatch.reset();
  const int smallest = microbatches_to_try(changed).front();
  if (problem.fixed.microbatch && *problem.fixed.microbatch > smallest) {
    changed.fixed.microbatch = smallest;
    offer(changed, fmt::format("microbatches of {} instead of {}", smallest, *problem.fixed.microbatch));
  }
  changed = problem;
  if (problem.fixed.schedule && *problem.fixed.schedule != Kind::Flush) {
    changed.fixed.schedule = Kind::Flush;
    offer(changed, fmt::format("schedule flush instead of {}", schedule::name(*problem.fixed.schedule)));
  }
  changed = problem;
  if (problem.fixed.stages) {
    changed.fixed.stages.reset();
    changed.fixed.split.clear();
    changed.fixed.recomputing.reset();
    offer(changed, fmt::format("more stages than {}", *problem.fixed.stages));
  }
  changed = problem;
  if (problem.fixed.replicas && *problem.fixed.replicas > 1) {
    changed.fixed.replicas = 1;
    offer(changed, fmt::format("one replica instead of {}", *problem.fixed.replicas));
  }
  if (problem.state.weights >= 4) offer(in_half_precision(problem), half_precision_of(problem.cluster));
  for (int times = 2; times <= 64; times *= 2) {
    if (problem.fixed.stages || !fits(with_nodes(problem, times))) continue;
    result.push_back(fmt::format("{} times as many nodes", times));
    break;
  }
  result.push_back(
      fmt::format("{} more memory on every device", format_shortage(closest.over / (1 - problem.margin))));
  return result;
}

}  // namespace twobw::planner
