// Order within one stage: every instruction once, in sequence, after its inputs.
#include <fmt/format.h>

#include <array>
#include <set>
#include <vector>

#include "core/schedule/checks.h"

namespace twobw::schedule {
namespace {

std::int64_t microbatches_of_run(const Spec& spec) {
  return spec.updates * spec.shape.microbatches;
}

// The ops `op` of the list must be number first, first+1, ..., count-1.
std::string check_counts_up(List list, Op op, std::int64_t Instruction::*number, std::int64_t first,
                            std::int64_t count) {
  std::int64_t next = first;
  for (const Instruction& instruction : list) {
    if (instruction.op != op) continue;
    if (instruction.*number != next || next == count) {
      return fmt::format("{} where number {} of {} was due", describe(instruction), next, count);
    }
    ++next;
  }
  if (next < count) return fmt::format("{} ends at {} of {}", name(op), next, count);
  return {};
}

// Instructions so far, by op and by microbatch or batch.
class History {
 public:
  History(const Spec& spec) : backwards_(static_cast<std::size_t>(spec.updates)) {
    for (auto& of_op : happened_) of_op.resize(static_cast<std::size_t>(microbatches_of_run(spec)));
  }

  void add(const Instruction& instruction) {
    const bool of_microbatch = instruction.microbatch >= 0;
    const std::int64_t index = of_microbatch ? instruction.microbatch : instruction.batch;
    happened_[static_cast<std::size_t>(instruction.op)][static_cast<std::size_t>(index)] = true;
    if (instruction.op == Op::Backward) ++backwards_[static_cast<std::size_t>(instruction.batch)];
  }

  bool has(Op op, std::int64_t index) const {
    return happened_[static_cast<std::size_t>(op)][static_cast<std::size_t>(index)];
  }
  int backwards(std::int64_t batch) const { return backwards_[static_cast<std::size_t>(batch)]; }

 private:
  std::array<std::vector<bool>, kOps> happened_;
  std::vector<int> backwards_;
};

// The missing input of an instruction; empty if it has all.
std::string missing(const Spec& spec, int stage, const History& history, const Instruction& instruction) {
  const std::int64_t k = instruction.microbatch;
  const std::int64_t j = instruction.batch;
  const auto need = [&](Op op, std::int64_t index) {
    return history.has(op, index) ? std::string() : std::string(name(op));
  };
  switch (instruction.op) {
    case Op::Forward:
      if (!history.has(Op::BeginBatch, j)) return need(Op::BeginBatch, j);
      return stage == 0 ? std::string() : need(Op::RecvActivation, k);
    case Op::SendActivation:
      return need(Op::Forward, k);
    case Op::Backward:
      if (!history.has(Op::Forward, k)) return need(Op::Forward, k);
      return stage + 1 == spec.shape.stages ? std::string() : need(Op::RecvGradient, k);
    case Op::SendGradient:
      return need(Op::Backward, k);
    case Op::ReduceGradients:
      return history.backwards(j) < spec.shape.microbatches ? "the batch's last Backward" : std::string();
    case Op::Step:
      return need(Op::ReduceGradients, j);
    case Op::Evaluate:
      return need(j < spec.first_batch ? Op::Restore : Op::Step, j);
    case Op::Save:
      return need(Op::Step, j);
    default:
      return {};
  }
}

bool is_evaluation_due(const Spec& spec, std::int64_t batch) {
  if (spec.evaluate_every == 0) return false;
  return (batch + 1) % spec.evaluate_every == 0 || batch + 1 == spec.updates;
}

// The cut after t updates. Except for the last, batch t must run, because the cut contains the weights it
// reads.
bool is_cut_due(const Spec& spec, std::int64_t cut) {
  if (!spec.saves) return false;
  if (cut == spec.updates) return spec.save_last;
  return spec.save_every > 0 && cut % spec.save_every == 0;
}

// Batches j with a microbatch that reads other weights than W(j).
std::set<std::int64_t> batches_on_older(List list) {
  std::set<std::int64_t> batches;
  for (const Instruction& instruction : list) {
    if (instruction.op != Op::Forward) continue;
    if (instruction.predicted || instruction.version < instruction.batch) batches.insert(instruction.batch);
  }
  return batches;
}

}  // namespace

std::string check_dataflow(const Spec& spec, int stage, List list) {
  History history(spec);
  for (const Instruction& instruction : list) {
    const std::string lacking = missing(spec, stage, history, instruction);
    if (!lacking.empty()) return fmt::format("{} comes before {}", describe(instruction), lacking);
    history.add(instruction);
  }
  return {};
}

std::string check_once(const Spec& spec, int, List list) {
  std::string problem =
      check_counts_up(list, Op::BeginBatch, &Instruction::batch, spec.first_batch, spec.updates);
  for (Op op : {Op::Forward, Op::Backward}) {
    if (!problem.empty()) break;
    problem = check_counts_up(list, op, &Instruction::microbatch, spec.first_batch * spec.shape.microbatches,
                              microbatches_of_run(spec));
  }
  return problem;
}

std::string check_updates(const Spec& spec, int, List list) {
  for (Op op : {Op::ReduceGradients, Op::Step}) {
    std::string problem = check_counts_up(list, op, &Instruction::batch, spec.first_batch, spec.updates);
    if (!problem.empty()) return problem;
  }
  const std::int64_t restored = spec.first_batch > 0 ? spec.first_batch - 1 : 0;
  std::string problem = check_counts_up(list, Op::Restore, &Instruction::batch, restored,
                                        spec.first_batch > 0 ? restored + 1 : 0);
  if (!problem.empty()) return problem;
  bool stepped = false;
  for (const Instruction& instruction : list) {
    const bool steps = instruction.op == Op::Step, restores = instruction.op == Op::Restore;
    if ((steps || restores) && instruction.version != instruction.batch + 1) {
      return fmt::format("{} must write W({})", describe(instruction), instruction.batch + 1);
    }
    if (restores && stepped) return fmt::format("{} comes after a Step", describe(instruction));
    stepped = stepped || steps;
  }
  return {};
}

// One order for all stages follows: every stage evaluates the due updates, each once, ascending.
std::string check_evaluations(const Spec& spec, int, List list) {
  std::int64_t newest = 0;
  std::int64_t next = spec.first_batch > 0 ? spec.first_batch - 1 : 0;
  const auto skip_to_due = [&] {
    while (next < spec.updates && !is_evaluation_due(spec, next)) ++next;
  };
  for (const Instruction& instruction : list) {
    if (instruction.op == Op::Step || instruction.op == Op::Restore) newest = instruction.version;
    if (instruction.op != Op::Evaluate) continue;
    skip_to_due();
    if (instruction.batch != next) return fmt::format("{} is not due", describe(instruction));
    if (instruction.version != newest || newest != next + 1) {
      return fmt::format("{} when W({}) is the newest", describe(instruction), newest);
    }
    ++next;
  }
  skip_to_due();
  if (next < spec.updates) return fmt::format("Evaluate of batch {} is missing", next);
  return {};
}

std::string check_saves(const Spec& spec, int, List list) {
  const std::set<std::int64_t> on_older = batches_on_older(list);
  std::int64_t next = spec.first_batch + 1;  // the next cut to save
  std::int64_t copied = -1;                  // the cut of the last SaveCompute
  std::int64_t updates_made = 0;
  const auto skip_to_due = [&] {
    while (next <= spec.updates && !is_cut_due(spec, next)) ++next;
  };
  skip_to_due();
  for (const Instruction& instruction : list) {
    if (instruction.op == Op::Step || instruction.op == Op::Restore) updates_made = instruction.version;
    if (instruction.op != Op::SaveCompute && instruction.op != Op::Save) continue;
    const std::int64_t cut = instruction.version;
    if (cut != next || instruction.batch + 1 != cut)
      return fmt::format("{} is not due", describe(instruction));
    if (instruction.op == Op::SaveCompute) {
      if (copied == cut) return fmt::format("{} comes twice", describe(instruction));
      copied = cut;
      continue;
    }
    if (updates_made != cut)
      return fmt::format("{} when W({}) is the newest", describe(instruction), updates_made);
    if (on_older.contains(cut) != (copied == cut))
      return fmt::format("{} {}", describe(instruction),
                         copied == cut ? "comes after SaveCompute, which has nothing to copy"
                                       : "comes without the weights that the batch after it reads");
    ++next;
    skip_to_due();
  }
  if (next <= spec.updates) return fmt::format("Save for W({}) is missing", next);
  return {};
}

}  // namespace twobw::schedule
