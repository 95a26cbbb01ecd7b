// The specs over which properties are tested.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "core/schedule/schedule_rule.h"
#include "core/schedule/spec.h"
#include "tests/support/covering.h"

namespace twobw::schedule {

inline std::string text(const Spec& spec) {
  return fmt::format(
      "{} w={} d={} m={} e={} updates={} sync_updates={} evaluate_every={} double_buffer_gradients={} "
      "predict={} slack={} defer_tied_update={}",
      name(spec.shape.schedule), spec.shape.replicas, spec.shape.stages, spec.shape.microbatches,
      spec.shape.extra, spec.updates, spec.sync_updates, spec.evaluate_every,
      spec.shape.double_buffer_gradients, spec.shape.predict, spec.shape.step_slack,
      spec.shape.defer_tied_update);
}

// The list of a stage without what passes between stages.
inline std::string work_of(const Spec& spec, int stage) {
  std::string list;
  for (const Instruction& i : instructions(spec, stage)) {
    const bool passes = i.op == Op::RecvActivation || i.op == Op::SendActivation ||
                        i.op == Op::RecvGradient || i.op == Op::SendGradient;
    if (!passes && i.op != Op::BeginBatch) list += describe(i) + "\n";
  }
  return list;
}

template <typename Function>
std::vector<int> by_stage(const Spec& spec, Function function) {
  std::vector<int> values;
  for (int stage = 0; stage < spec.shape.stages; ++stage) values.push_back(function(spec, stage));
  return values;
}

struct Ranges {
  int stages = full_sweeps() ? 8 : 4;
  int microbatches = full_sweeps() ? 12 : 6;
  int extra = full_sweeps() ? 3 : 2;
  int updates = full_sweeps() ? 6 : 4;
  int sync_updates = 3;
  int evaluate_every = 3;
  int replicas = 1;
};

// Calls `function` with every valid spec of one kind up to the ranges, those left out that a kind
// cannot tell from others: e for those that never look at it, sync_updates where all is synchronous, a second
// gradient buffer or none, predictions or none, a late tie but under 2BW.
template <typename Function>
void for_each_spec(Kind kind, Ranges ranges, Function function) {
  if (kind == Kind::Sequential || kind == Kind::GPipe) ranges.extra = 0;
  if (kind != Kind::TwoBW && kind != Kind::Stash) ranges.sync_updates = 0;
  Spec spec = {.shape = {.schedule = kind, .predict = false}};
  const auto with_and_without = [&] {
    for (bool predict : {true, false}) {
      spec.shape.predict = predict;
      if (spec.shape.microbatches < smallest_microbatches(spec)) continue;
      for (bool second : {true, false}) {
        spec.shape.double_buffer_gradients = second;
        if ((second && predict) || kind == Kind::TwoBW) function(spec);
      }
      // With true weights as early as can be, and with none; above it was with some slack.
      spec.shape.double_buffer_gradients = true;
      for (int slack : {0, 100}) {
        spec.shape.step_slack = slack;
        const bool differs = switches_to_true_weights(spec) == (slack == 0);
        if (kind == Kind::TwoBW && predict && differs) function(spec);
      }
      spec.shape.step_slack = 1;
      spec.shape.defer_tied_update = true;
      if (kind == Kind::TwoBW && spec.shape.replicas == 1 && steps_late(spec, 0)) function(spec);
      spec.shape.defer_tied_update = false;
    }
  };
  for (spec.shape.stages = 1; spec.shape.stages <= ranges.stages; ++spec.shape.stages)
    for (spec.shape.extra = 0; spec.shape.extra <= ranges.extra; ++spec.shape.extra)
      for (spec.shape.microbatches = smallest_microbatches(spec);
           spec.shape.microbatches <= ranges.microbatches; ++spec.shape.microbatches)
        for (spec.updates = 1; spec.updates <= ranges.updates; ++spec.updates)
          for (spec.sync_updates = 0; spec.sync_updates <= ranges.sync_updates; ++spec.sync_updates)
            for (spec.evaluate_every = 0; spec.evaluate_every <= ranges.evaluate_every; ++spec.evaluate_every)
              for (spec.shape.replicas = 1; spec.shape.replicas <= ranges.replicas; ++spec.shape.replicas)
                with_and_without();
}

}  // namespace twobw::schedule
