#include "planning/planner/search/space.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "core/base/error.h"
#include "planning/planner/costs/stage_timing.h"

namespace twobw::planner {
namespace {

using schedule::Kind;

void require_within(const char* key, const std::optional<int>& value, int least, int most) {
  if (value && *value < least) fail_input("{} is {}; it must be at least {}", key, *value, least);
  if (value && *value > most) fail_input("{} is {}; it must be at most {}", key, *value, most);
}

// Whether extra microbatches in flight make a difference.
bool has_window(Kind schedule) {
  return schedule == Kind::TwoBW || schedule == Kind::Flush;
}

std::string list(const std::vector<int>& values) {
  return fmt::format("{}", fmt::join(values, ", "));
}

}  // namespace

void validate(const Problem& problem) {
  int devices = 0;
  for (const Node& node : problem.cluster.nodes) {
    for (const Island& island : node.islands) devices += island.count;
  }
  if (devices == 0) fail_input("the cluster has no devices; a plan needs at least one");
  if (problem.layers.empty()) fail_input("the model has no layers; a plan needs at least one");
  TWOBW_ASSERT(problem.costs.size() == problem.cluster.kinds.size(), "costs of {} kinds of {}",
               problem.costs.size(), problem.cluster.kinds.size());
  if (problem.batch < 1 || problem.batch > kLargestBatch)
    fail_input("the batch is {}; it must be at least 1 and at most {}", problem.batch, kLargestBatch);
  if (problem.margin < 0 || problem.margin >= 1)
    fail_input("the memory margin is {}; it must be at least 0 and below 1", problem.margin);
  require_within("pipeline.stages", problem.fixed.stages, 1, kMostStages);
  require_within("pipeline.replicas", problem.fixed.replicas, 1, kMostStages);
  require_within("pipeline.microbatch", problem.fixed.microbatch, 1, kLargestMicrobatch);
  require_within("pipeline.microbatches", problem.fixed.microbatches, 1, kMostMicrobatches);
  require_within("pipeline.extra", problem.fixed.extra, 0, kMostExtra);
  if (problem.fixed.schedule == Kind::Stash)
    fail_input("pipeline.schedule is stash; plans are made for 2bw, flush, gpipe and sequential");

  const int layers = static_cast<int>(problem.layers.size());
  const int d = problem.fixed.stages.value_or(1), w = problem.fixed.replicas.value_or(1);
  if (d > layers)
    fail_input("pipeline.stages is {}; the model has {} layers, so at most {}", d, layers, layers);
  if (w > devices)
    fail_input("pipeline.replicas is {}; the cluster has {} devices, so at most {}", w, devices, devices);
  if (d > devices / w) {
    fail_input("pipeline.stages is {}; with {} replica{} and {} devices it can be at most {}", d, w,
               w > 1 ? "s" : "", devices, devices / w);
  }
  if (const std::vector<int>& split = problem.fixed.split; !split.empty()) {
    TWOBW_ASSERT(std::ssize(split) == d, "a split of {} stages for {}", split.size(), d);
    const int covered = std::accumulate(split.begin(), split.end(), 0);
    if (covered != layers)
      fail_input("pipeline.split covers {} layers; it must cover the model's {}", covered, layers);
  }
  TWOBW_ASSERT(!problem.fixed.recomputing || problem.fixed.stages, "stages that recompute, of any number");
  const std::vector<int> sizes = microbatches_to_try(problem);
  if (sizes.empty()) {
    Problem free = problem;
    free.fixed.microbatch.reset();
    const std::vector<int> known = microbatches_to_try(free);
    if (known.empty()) fail_input("no microbatch size was measured on any device of the cluster");
    fail_input("pipeline.microbatch is {}; times are known for {}", *problem.fixed.microbatch, list(known));
  }
  const int b = sizes.front(), m = problem.fixed.microbatches.value_or(1);
  if (b > problem.batch / w / m) {
    fail_input("the batch is {}; with {} microbatch{} of {} on {} replica{} it must be at least {}",
               problem.batch, m, m > 1 ? "es" : "", b, w, w > 1 ? "s" : "", 1LL * m * b * w);
  }
  if (problem.fixed.microbatches && problem.fixed.schedule == Kind::TwoBW) {
    const Setting setting{.shape = {.schedule = Kind::TwoBW,
                                    .microbatches = m,
                                    .extra = problem.fixed.extra.value_or(0),
                                    .predict = problem.fixed.predict.value_or(true)}};
    schedule::validate(spec_of(setting, d));
  }
}

std::vector<Kind> schedules_to_try(const Problem& problem) {
  if (problem.fixed.schedule) return {*problem.fixed.schedule};
  return {Kind::TwoBW, Kind::Flush, Kind::GPipe, Kind::Sequential};
}

std::vector<int> replicas_to_try(const Problem& problem) {
  if (problem.fixed.replicas) return {*problem.fixed.replicas};
  int devices = 0, largest = 0;
  std::set<int> sizes;
  for (const Node& node : problem.cluster.nodes) {
    for (const Island& island : node.islands) {
      devices += island.count;
      largest = std::max(largest, island.count);
      sizes.insert(island.count);
    }
  }
  std::set<int> result;
  for (int w = 1; w <= largest; ++w) result.insert(w);
  for (int size : sizes) {
    for (int w = size; size > 0 && w <= devices; w += size) result.insert(w);
  }
  return {result.begin(), result.end()};
}

std::vector<int> microbatches_to_try(const Problem& problem) {
  std::set<int> result;
  for (const Node& node : problem.cluster.nodes) {
    for (const Island& island : node.islands) {
      for (const CostColumn& column : problem.costs[island.kind].columns) result.insert(column.microbatch);
    }
  }
  if (problem.fixed.microbatch) {
    if (!result.contains(*problem.fixed.microbatch)) return {};
    return {*problem.fixed.microbatch};
  }
  return {result.begin(), result.end()};
}

int microbatch_count(const Problem& problem, int replicas, int microbatch) {
  const int most = problem.batch / replicas / microbatch;
  if (!problem.fixed.microbatches) return most;
  return *problem.fixed.microbatches <= most ? *problem.fixed.microbatches : 0;
}

int fixed_extra(const Problem& problem, Kind schedule) {
  return has_window(schedule) ? problem.fixed.extra.value_or(0) : 0;
}

std::vector<bool> second_gradients_to_try(const Problem& problem, Kind schedule) {
  if (schedule != Kind::TwoBW) return {true};
  if (problem.fixed.double_buffer_gradients) return {*problem.fixed.double_buffer_gradients};
  if (problem.fixed.defer_tied_update.value_or(false)) return {true};
  return {true, false};
}

std::vector<bool> late_ties_to_try(const Problem& problem, const PipelineShape& shape) {
  if (shape.schedule != Kind::TwoBW || shape.replicas > 1 || !shape.double_buffer_gradients) return {false};
  if (problem.fixed.defer_tied_update) return {*problem.fixed.defer_tied_update};
  const bool tied =
      std::ranges::any_of(problem.layers, [](const LayerShape& layer) { return layer.tied > 0; });
  return tied && problem.links ? std::vector{false, true} : std::vector{false};
}

std::vector<int> extras_to_try(const Problem& problem, Kind schedule) {
  if (!has_window(schedule) || problem.fixed.extra) return {0};
  return {0, 1, 2};
}

}  // namespace twobw::planner
