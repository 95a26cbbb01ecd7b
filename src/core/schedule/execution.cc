#include "core/schedule/execution.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

namespace twobw::schedule {
namespace {

constexpr std::int64_t never = -1;

std::int64_t index_of(const Instruction& instruction) {
  return instruction.microbatch >= 0 ? instruction.microbatch : instruction.batch;
}

class Executor {
 public:
  Executor(const Lists& lists, const Costs& costs, int replicas, bool only_one)
      : lists_(lists),
        costs_(costs),
        replicas_(replicas),
        only_one_(only_one),
        stages_(lists.size() / static_cast<std::size_t>(replicas)),
        workers_(lists.size()) {
    result_.times.resize(lists.size());
    for (std::size_t r = 0; r < lists.size(); ++r) result_.times[r].reserve(lists[r].size());
  }

  Execution run() {
    bool progress = true;
    while (progress) {
      progress = false;
      for (std::size_t r = 0; r < lists_.size(); ++r) progress |= advance(r);
    }
    result_.deadlock = describe_stuck();
    return std::move(result_);
  }

 private:
  struct Worker {
    std::int64_t clock = 0;
    std::array<std::vector<std::int64_t>, kOps> ends;  // by op, then microbatch or batch
  };

  // Runs worker r until it waits. Returns whether it made progress.
  bool advance(std::size_t r) {
    std::vector<Span>& times = result_.times[r];
    const std::size_t before = times.size();
    while (times.size() < lists_[r].size()) {
      const Instruction& instruction = lists_[r][times.size()];
      const std::int64_t ready = ready_at(r, instruction);
      if (ready == never) break;
      const std::int64_t start = std::max(workers_[r].clock, ready);
      times.push_back({start, start + cost(instruction.op)});
      record(r, instruction, times.back().end);
    }
    return times.size() > before;
  }

  // When the instruction may start, as far as others decide: 0 if it waits for nobody.
  std::int64_t ready_at(std::size_t r, const Instruction& instruction) const {
    switch (instruction.op) {
      case Op::RecvActivation:
        return is_first(r) ? never : end_of(r - 1, Op::SendActivation, instruction);
      case Op::RecvGradient:
        return is_last(r) ? never : end_of(r + 1, Op::SendGradient, instruction);
      case Op::ReduceGradients:
        if (!is_first(r) || is_last(r)) return 0;
        return end_of_all(stages_ - 1, stages_, Op::ReduceGradients, instruction.batch);
      case Op::Step:
        if (only_one_ && r > 0) return end_of(0, Op::Step, instruction);
        return end_of_all(0, 1, Op::ReduceGradients, instruction.batch);
      case Op::Predict:
        if (replicas_ == 1) return 0;
        return end_of_all(r % stages_, stages_, Op::ReducePartial, instruction.batch - 1);
      case Op::Evaluate:
        if (!all_after_reach(r, instruction)) return never;
        return is_first(r) ? 0 : end_of(r - 1, Op::Evaluate, instruction);
      case Op::BeginBatch:
        return r == 0 ? 0 : end_of(0, Op::BeginBatch, instruction);
      default:
        return 0;
    }
  }

  bool all_after_reach(std::size_t r, const Instruction& evaluate) const {
    for (; !is_last(r); ++r) {
      const auto& list = lists_[r + 1];
      const std::size_t next = result_.times[r + 1].size();
      if (next == list.size() || list[next].op != Op::Evaluate || list[next].batch != evaluate.batch)
        return false;
    }
    return true;
  }

  bool is_first(std::size_t r) const { return r % stages_ == 0; }
  bool is_last(std::size_t r) const { return r % stages_ == stages_ - 1; }

  std::int64_t end_of(std::size_t r, Op op, const Instruction& instruction) const {
    const auto& ends = workers_[r].ends[static_cast<std::size_t>(op)];
    const std::int64_t index = index_of(instruction);
    if (index < 0 || index >= static_cast<std::int64_t>(ends.size())) return never;
    return ends[static_cast<std::size_t>(index)];
  }

  // When workers first, first + step, ... have all run `op` of the batch.
  std::int64_t end_of_all(std::size_t first, std::size_t step, Op op, std::int64_t batch) const {
    std::int64_t latest = 0;
    for (std::size_t r = first; r < lists_.size(); r += step) {
      const std::int64_t end = end_of(r, op, {.batch = batch});
      if (end == never) return never;
      latest = std::max(latest, end);
    }
    return latest;
  }

  void record(std::size_t r, const Instruction& instruction, std::int64_t end) {
    workers_[r].clock = end;
    auto& ends = workers_[r].ends[static_cast<std::size_t>(instruction.op)];
    const std::int64_t index = index_of(instruction);
    if (index < 0) return;
    if (index >= static_cast<std::int64_t>(ends.size()))
      ends.resize(static_cast<std::size_t>(index) + 1, never);
    ends[static_cast<std::size_t>(index)] = end;
  }

  std::int64_t cost(Op op) const {
    if (op == Op::Forward) return costs_.forward;
    if (op == Op::Backward) return costs_.backward;
    if (op == Op::Evaluate) return costs_.evaluate;
    return 0;
  }

  std::string describe_stuck() const {
    std::string text;
    for (std::size_t r = 0; r < lists_.size(); ++r) {
      const std::size_t done = result_.times[r].size();
      if (done == lists_[r].size()) continue;
      const std::string who =
          worker_name(replicas_, static_cast<int>(r / stages_), static_cast<int>(r % stages_));
      text +=
          fmt::format("{}{} waits forever at {}", text.empty() ? "" : "; ", who, describe(lists_[r][done]));
    }
    return text;
  }

  const Lists& lists_;
  Costs costs_;
  int replicas_;
  bool only_one_;
  std::size_t stages_;  // of a replica
  std::vector<Worker> workers_;
  Execution result_;
};

}  // namespace

std::int64_t Execution::ticks() const {
  std::int64_t last = 0;
  for (const auto& stage : times) {
    if (!stage.empty()) last = std::max(last, stage.back().end);
  }
  return last;
}

Execution execute(const Lists& lists, const Costs& costs, int replicas, bool only_one) {
  return Executor(lists, costs, replicas, only_one).run();
}

double steady_ticks_per_batch(const Spec& spec, const Costs& costs) {
  // Enough batches before and after the measured ones to exclude filling and draining.
  const std::int64_t margin = 2 + (spec.shape.stages + spec.shape.extra) / spec.shape.microbatches;
  const std::int64_t first = synchronous_batches(spec) + 2 * margin;
  const std::int64_t measured = 4 * margin;
  Spec longer = spec;
  longer.evaluate_every = 0;
  longer.updates = first + measured + margin;

  const Lists lists = all_instructions(longer);
  const Execution execution = execute(lists, costs);
  // Stage 0 is the last to finish a batch.
  const auto end_of_batch = [&](std::int64_t batch) {
    const auto ends = [&](const Instruction& i) { return i.op == Op::ReduceGradients && i.batch == batch; };
    return execution.times[0][std::ranges::find_if(lists[0], ends) - lists[0].begin()].end;
  };
  return static_cast<double>(end_of_batch(first + measured) - end_of_batch(first)) /
         static_cast<double>(measured);
}

}  // namespace twobw::schedule
