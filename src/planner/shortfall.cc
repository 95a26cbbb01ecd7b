#include "planner/shortfall.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "planner/search.h"
#include "planner/space.h"

namespace twobw::planner {
namespace {

using schedule::Kind;

// Whether the problem has a plan. Of all settings the fewest replicas and the smallest microbatches need
// least memory.
bool fits(Problem problem) {
  if (!problem.replicas) problem.replicas = 1;
  if (!problem.microbatch) problem.microbatch = microbatches_to_try(problem).front();
  if (!problem.extra) problem.extra = 0;
  return search(problem, {.simulate = 0, .remedies = false}).best.has_value();
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
        layer.stash /= 2;
        layer.kept /= 2;
        layer.output /= 2;
        layer.working /= 2;
      }
    }
  }
  return problem;
}

Problem with_nodes(Problem problem, int times) {
  const std::vector<Node> nodes = problem.cluster.nodes;
  for (int i = 1; i < times; ++i) {
    problem.cluster.nodes.insert(problem.cluster.nodes.end(), nodes.begin(), nodes.end());
  }
  return problem;
}

}  // namespace

std::string in_words(double bytes) {
  constexpr double mib = 1 << 20, gib = 1 << 30;
  return bytes < gib ? fmt::format("{:.1f} MiB", bytes / mib) : fmt::format("{:.2f} GiB", bytes / gib);
}

std::vector<std::string> remedies(const Problem& problem, const Estimate& closest) {
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
  if (problem.recompute == false) {
    changed.recompute.reset();
    offer(changed, "recomputation");
  }
  changed = problem;
  if (problem.second_gradient == true) {
    changed.second_gradient = false;
    offer(changed, "one gradient buffer a stage instead of two");
  }
  changed = problem;
  changed.microbatch.reset();
  const int smallest = microbatches_to_try(changed).front();
  if (problem.microbatch && *problem.microbatch > smallest) {
    changed.microbatch = smallest;
    offer(changed, fmt::format("microbatches of {} instead of {}", smallest, *problem.microbatch));
  }
  changed = problem;
  if (problem.schedule && *problem.schedule != Kind::Flush) {
    changed.schedule = Kind::Flush;
    offer(changed, fmt::format("schedule flush instead of {}", schedule::name(*problem.schedule)));
  }
  changed = problem;
  if (problem.stages) {
    changed.stages.reset();
    offer(changed, fmt::format("more stages than {}", *problem.stages));
  }
  changed = problem;
  if (problem.replicas && *problem.replicas > 1) {
    changed.replicas = 1;
    offer(changed, fmt::format("one replica instead of {}", *problem.replicas));
  }
  if (problem.state.weights >= 4) offer(in_half_precision(problem), "bf16");
  for (int times = 2; times <= 64; times *= 2) {
    if (problem.stages || !fits(with_nodes(problem, times))) continue;
    result.push_back(fmt::format("{} times as many nodes", times));
    break;
  }
  result.push_back(
      fmt::format("{} more memory on every device", in_words(closest.over / (1 - problem.margin))));
  return result;
}

}  // namespace twobw::planner
