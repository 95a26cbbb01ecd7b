#include "core/schedule/execution.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

namespace twobw::schedule {
namespace {

constexpr std::size_t op_count = static_cast<std::size_t>(Op::Evaluate) + 1;
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
    std::array<std::vector<std::int64_t>, op_count> ends;  // by op, then microbatch or batch
  };

  // Runs worker r until it waits; whether it got anywhere.
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

  // When what the instruction waits for has happened: 0 if it waits for nothing.
  std::int64_t ready_at(std::size_t r, const Instruction& instruction) const {
    switch (instruction.op) {
      case Op::RecvActivation:
        return is_first(r) ? never : end_of(r - 1, Op::SendActivation, instruction);
      case Op::RecvGradient:
        return is_last(r) ? never : end_of(r + 1, Op::SendGradient, instruction);
      case Op::ReduceGradients:
        return is_first(r) && !is_last(r) ? reduced_by(stages_ - 1, stages_, instruction) : 0;
      case Op::Step:
        return only_one_ && r > 0 ? end_of(0, Op::Step, instruction) : reduced_by(0, 1, instruction);
      case Op::Predict:
        return replicas_ == 1 ? 0 : partly_reduced(r, instruction.batch - 1);
      case Op::Evaluate:
        if (!all_after_come_to(r, instruction)) return never;
        return is_first(r) ? 0 : end_of(r - 1, Op::Evaluate, instruction);
      case Op::BeginBatch:
        return r == 0 ? 0 : end_of(0, Op::BeginBatch, instruction);
      default:
        return 0;
    }
  }

  bool all_after_come_to(std::size_t r, const Instruction& evaluate) const {
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

  // When the batch's gradients are complete on workers first, first + step, ...
  std::int64_t reduced_by(std::size_t first, std::size_t step, const Instruction& instruction) const {
    std::int64_t latest = 0;
    for (std::size_t r = first; r < lists_.size(); r += step) {
      const std::int64_t end = end_of(r, Op::ReduceGradients, instruction);
      if (end == never) return never;
      latest = std::max(latest, end);
    }
    return latest;
  }

  // When all replicas of worker r's stage have begun the sum of what they predict from.
  std::int64_t partly_reduced(std::size_t r, std::int64_t batch) const {
    std::int64_t latest = 0;
    for (std::size_t other = r % stages_; other < lists_.size(); other += stages_) {
      const std::int64_t end = end_of(other, Op::ReducePartial, {.batch = batch});
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
          fmt::format("{}{} waits for ever at {}", text.empty() ? "" : "; ", who, describe(lists_[r][done]));
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

// When stage 0, the last to finish a batch, ends the backward of microbatch k.
std::int64_t backward_end(const Lists& lists, const Execution& execution, std::int64_t k) {
  for (std::size_t i = 0; i < lists[0].size(); ++i) {
    if (lists[0][i].op == Op::Backward && lists[0][i].microbatch == k) return execution.times[0][i].end;
  }
  return 0;
}

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
  // Batches enough on both sides of those measured that neither filling nor draining is seen.
  const std::int64_t margin = 2 + (spec.shape.stages + spec.shape.extra) / spec.shape.microbatches;
  const std::int64_t first = synchronous_batches(spec) + 2 * margin;
  const std::int64_t measured = 4 * margin;
  Spec longer = spec;
  longer.evaluate_every = 0;
  longer.updates = first + measured + margin;

  const Lists lists = all_instructions(longer);
  const Execution execution = execute(lists, costs);
  const auto end_of_batch = [&](std::int64_t batch) {
    return backward_end(lists, execution, (batch + 1) * spec.shape.microbatches - 1);
  };
  return static_cast<double>(end_of_batch(first + measured) - end_of_batch(first)) /
         static_cast<double>(measured);
}

}  // namespace twobw::schedule
