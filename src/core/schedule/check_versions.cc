// Weights that microbatches run on, and predictions.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/schedule/checks.h"

namespace twobw::schedule {
namespace {

// The design's table. It must not call version_of or predicts, from which the lists are made.
bool runs_under_flush(const Spec& spec, std::int64_t batch) {
  return batch < spec.sync_updates;
}

// W(j) exists when batch j begins, because no batch is in flight then.
bool begins_drained(const Spec& spec, std::int64_t batch) {
  if (spec.begins_drained && batch == spec.first_batch) return true;
  return batch == 0 || runs_under_flush(spec, batch) || runs_under_flush(spec, batch - 1);
}

bool must_be_predicted(const Spec& spec, std::int64_t batch) {
  return spec.shape.schedule == Kind::TwoBW && spec.shape.predict && !begins_drained(spec, batch);
}

// The first d-1+e+step_slack microbatches of a predicted batch, at least one, run on P(j) and the others on
// W(j): if 2(d-1+e) + step_slack <= m, some are left, and a gradient may wait in a second buffer.
bool must_run_on_prediction(const Spec& spec, const Instruction& instruction) {
  if (!must_be_predicted(spec, instruction.batch)) return false;
  const std::int64_t m = spec.shape.microbatches, d = spec.shape.stages;
  if (!spec.shape.double_buffer_gradients || d * spec.shape.replicas == 1) return true;
  const std::int64_t fill = d > 1 ? d - 1 + spec.shape.extra : 0;  // one stage has nobody to be ahead of
  const std::int64_t first = fill + spec.shape.step_slack == 0 ? 1 : fill + spec.shape.step_slack;
  return fill + first > m || first >= m || instruction.microbatch - instruction.batch * m < first;
}

// n_r = d - r and its share of e.
std::int64_t most_in_flight(const Spec& spec, int stage) {
  const std::int64_t behind = spec.shape.stages - 1 - stage;
  const std::int64_t extra =
      behind == 0 ? 0 : (spec.shape.extra * behind + spec.shape.stages - 2) / (spec.shape.stages - 1);
  return behind + 1 + extra;
}

// Under stash: the microbatch was in flight at the cut that the run resumes from, and keeps its version.
bool was_in_flight(const Spec& spec, int stage, std::int64_t microbatch) {
  return spec.first_batch > 0 && !spec.begins_drained &&
         microbatch < spec.first_batch * spec.shape.microbatches + most_in_flight(spec, stage) - 1;
}

std::int64_t version_by_rule(const Spec& spec, int stage, const Instruction& forward,
                             std::int64_t updates_made) {
  const std::int64_t batch = forward.batch;
  switch (spec.shape.schedule) {
    case Kind::Sequential:
    case Kind::GPipe:
    case Kind::Flush:
      return batch;
    case Kind::TwoBW:
      if (spec.shape.predict) return batch;
      return begins_drained(spec, batch) ? batch : batch - 1;
    case Kind::Stash: {
      if (batch < spec.sync_updates) return batch;
      if (!was_in_flight(spec, stage, forward.microbatch)) return updates_made;
      const std::int64_t m = spec.shape.microbatches;
      const std::int64_t ended = forward.microbatch - spec.sync_updates * m - most_in_flight(spec, stage) + 1;
      return spec.sync_updates + (ended < 0 ? 0 : ended / m);
    }
  }
  return -1;
}

// Updates before the list begins. In a resumed run Restore makes the last one.
std::int64_t updates_made_before(const Spec& spec) {
  return spec.first_batch > 0 ? spec.first_batch - 1 : 0;
}

std::vector<std::int64_t> versions_by_microbatch(const Spec& spec, List list) {
  std::vector<std::int64_t> versions(static_cast<std::size_t>(spec.updates * spec.shape.microbatches), -1);
  for (const Instruction& instruction : list) {
    if (instruction.op != Op::Forward) continue;
    versions[static_cast<std::size_t>(instruction.microbatch)] = instruction.version;
  }
  return versions;
}

}  // namespace

// P(j) is made from W(j-1) and exactly the first k_r = m - n_r + 1 gradients of batch j-1. With replicas it
// is made from their sum, which begins one microbatch earlier if k_r > 1.
std::string check_predictions(const Spec& spec, int stage, List list) {
  const std::int64_t m = spec.shape.microbatches, in = m - most_in_flight(spec, stage) + 1;
  const bool shares = spec.shape.replicas > 1;
  const std::int64_t taken = shares && in > 1 ? in - 1 : in;
  // The next batch to predict; the first of a resumed run has its prediction from the checkpoint.
  std::int64_t next = spec.first_batch > 0 ? spec.first_batch + 1 : 0;
  const auto skip_to_predicted = [&] {
    while (next < spec.updates && !must_be_predicted(spec, next)) ++next;
  };
  skip_to_predicted();
  std::int64_t backwards = spec.first_batch * m, updates_made = updates_made_before(spec), shared = 0;
  for (const Instruction& instruction : list) {
    const std::int64_t j = instruction.batch;
    switch (instruction.op) {
      case Op::Backward:
        ++backwards;
        break;
      case Op::Step:
      case Op::Restore:
        ++updates_made;
        break;
      case Op::ReducePartial:
        if (!shares || !must_be_predicted(spec, j + 1) || j + 1 == spec.updates)
          return fmt::format("{} is not wanted", describe(instruction));
        if (shared > j) return fmt::format("{} comes twice", describe(instruction));
        if (backwards != j * m + taken)
          return fmt::format("{} has {} gradients, {} are due", describe(instruction), backwards - j * m,
                             taken);
        shared = j + 1;
        break;
      case Op::Predict:
        if (!must_be_predicted(spec, j) || j != next++)
          return fmt::format("{} is not the next to be predicted", describe(instruction));
        skip_to_predicted();
        if (instruction.version != j || !instruction.predicted)
          return fmt::format("{} must write P({})", describe(instruction), j);
        if (backwards != (j - 1) * m + in)
          return fmt::format("{} has {} gradients, {} are due", describe(instruction),
                             backwards - (j - 1) * m, in);
        if (updates_made != j - 1)
          return fmt::format("{} when {} updates are made", describe(instruction), updates_made);
        if (shares && shared != j) return fmt::format("{} before ReducePartial", describe(instruction));
        break;
      case Op::Forward:
        if (must_be_predicted(spec, j) && j >= next)
          return fmt::format("{} comes before Predict", describe(instruction));
        break;
      default:
        break;
    }
  }
  return {};
}

std::string check_version_rule(const Spec& spec, int stage, List list) {
  const auto forward_versions = versions_by_microbatch(spec, list);
  std::int64_t updates_made = updates_made_before(spec);
  for (const Instruction& instruction : list) {
    if (instruction.op == Op::Step || instruction.op == Op::Restore) ++updates_made;
    std::int64_t expected = instruction.version;
    if (instruction.op == Op::Forward) expected = version_by_rule(spec, stage, instruction, updates_made);
    if (instruction.op == Op::Backward) {
      expected = forward_versions[static_cast<std::size_t>(instruction.microbatch)];
    }
    if (instruction.version != expected) {
      return fmt::format("{} must be on version {}", describe(instruction), expected);
    }
    const bool computes = instruction.op == Op::Forward || instruction.op == Op::Backward;
    if (computes && instruction.predicted != must_run_on_prediction(spec, instruction)) {
      return fmt::format("{} must be on {} weights", describe(instruction),
                         instruction.predicted ? "true" : "predicted");
    }
  }
  return {};
}

std::string check_agreement(const Spec& spec, const Lists& lists) {
  const auto first = versions_by_microbatch(spec, lists[0]);
  for (std::size_t r = 1; r < lists.size(); ++r) {
    const auto here = versions_by_microbatch(spec, lists[r]);
    for (std::size_t k = 0; k < first.size(); ++k) {
      if (here[k] == first[k]) continue;
      return fmt::format("microbatch {} runs on W({}) at stage {} and on W({}) at stage 0", k, here[k], r,
                         first[k]);
    }
  }
  return {};
}

}  // namespace twobw::schedule
