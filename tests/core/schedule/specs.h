// Specs over which properties are tested, and compact forms of instruction lists.
#pragma once

#include <fmt/format.h>

#include <ostream>
#include <string>
#include <vector>

#include "core/schedule/schedule_rule.h"
#include "core/schedule/spec.h"
#include "tests/support/covering.h"

namespace twobw::schedule {

// "F5@P1": the forward of microbatch 5 on P(1). "B3@W1": the backward of 3 on W(1). a5 A5, g5 G5: 5 is
// received and sent, its activation and its gradient. J1: batch 1 begins. r1 R1: partial and complete sum of
// its gradients. S2 P2 T2 E2 C2 V2: Step, Predict, Restore, Evaluate, SaveCompute and Save of version 2.
inline std::string compact(const Instruction& i) {
  constexpr char kLetters[] = "JaFAgBGrRSPCVTE";
  const bool computes = i.op == Op::Forward || i.op == Op::Backward;
  const std::int64_t number = i.microbatch >= 0 ? i.microbatch : i.version >= 0 ? i.version : i.batch;
  return fmt::format("{}{}", kLetters[static_cast<std::size_t>(i.op)], number) +
         (computes ? fmt::format("@{}{}", i.predicted ? 'P' : 'W', i.version) : "");
}

// With `work_only` without messages and beginnings of batches.
inline std::string compact(const std::vector<Instruction>& list, bool work_only = false) {
  std::string text;
  for (const Instruction& i : list) {
    const bool passes = i.op == Op::RecvActivation || i.op == Op::SendActivation ||
                        i.op == Op::RecvGradient || i.op == Op::SendGradient || i.op == Op::BeginBatch;
    if (!work_only || !passes) text += (text.empty() ? "" : " ") + compact(i);
  }
  return text;
}

inline void PrintTo(const Instruction& instruction, std::ostream* out) {
  *out << compact(instruction);
}

inline std::string text(const Spec& spec) {
  return fmt::format(
      "{} w={} d={} m={} e={} updates={} sync_updates={} evaluate_every={} double_buffer_gradients={} "
      "predict={} step_slack={} defer_tied_update={}",
      name(spec.shape.schedule), spec.shape.replicas, spec.shape.stages, spec.shape.microbatches,
      spec.shape.extra, spec.updates, spec.sync_updates, spec.evaluate_every,
      spec.shape.double_buffer_gradients, spec.shape.predict, spec.shape.step_slack,
      spec.shape.defer_tied_update);
}

inline std::string kind_name(Kind kind) {
  return kind == Kind::TwoBW ? "TwoBW" : std::string(name(kind));
}

template <typename Function>
std::vector<int> by_stage(const Spec& spec, Function function) {
  std::vector<int> values;
  for (int stage = 0; stage < spec.shape.stages; ++stage) values.push_back(function(spec, stage));
  return values;
}

inline std::vector<Instruction> without(std::vector<Instruction> list, Op op) {
  std::erase_if(list, [&](const Instruction& i) { return i.op == op; });
  return list;
}

struct Ranges {
  int stages = full_sweeps() ? 8 : 4;
  int microbatches = full_sweeps() ? 12 : 6;
  int extra = full_sweeps() ? 3 : 2;
  int updates = full_sweeps() ? 6 : 4;
  int sync_updates = full_sweeps() ? 3 : 2;
  int evaluate_every = full_sweeps() ? 3 : 2;
  int replicas = 1;
};

// Calls `function` with every valid spec of one kind up to the ranges. Settings without effect on a kind are
// left out: e for sequential and gpipe, sync_updates for synchronous kinds, gradient buffers, predictions and
// a deferred tied update except for 2bw.
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
      // True weights as early as possible, and no true weights; the specs above have some slack.
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
