#include "schedule/execution.h"

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
  Executor(const Lists& lists, const Costs& costs) : lists_(lists), costs_(costs), stages_(lists.size()) {
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
  struct Stage {
    std::int64_t clock = 0;
    std::array<std::vector<std::int64_t>, op_count> ends;  // by op, then microbatch or batch
  };

  // Runs stage r until it waits; whether it got anywhere.
  bool advance(std::size_t r) {
    std::vector<Span>& times = result_.times[r];
    const std::size_t before = times.size();
    while (times.size() < lists_[r].size()) {
      const Instruction& instruction = lists_[r][times.size()];
      const std::int64_t ready = ready_at(r, instruction);
      if (ready == never) break;
      const std::int64_t start = std::max(stages_[r].clock, ready);
      times.push_back({start, start + cost(instruction.op)});
      record(r, instruction, times.back().end);
    }
    return times.size() > before;
  }

  // When what the instruction waits for has happened: 0 if it waits for nothing.
  std::int64_t ready_at(std::size_t r, const Instruction& instruction) const {
    switch (instruction.op) {
      case Op::RecvActivation:
        return r == 0 ? never : end_of(r - 1, Op::SendActivation, instruction);
      case Op::RecvGradient:
        return r + 1 == lists_.size() ? never : end_of(r + 1, Op::SendGradient, instruction);
      case Op::Step:
        return end_everywhere(Op::ReduceGradients, instruction);
      case Op::Evaluate:
        return r == 0 ? 0 : end_of(r - 1, Op::Evaluate, instruction);
      case Op::BeginBatch:
        return r == 0 ? 0 : end_of(0, Op::BeginBatch, instruction);
      default:
        return 0;
    }
  }

  std::int64_t end_of(std::size_t r, Op op, const Instruction& instruction) const {
    const auto& ends = stages_[r].ends[static_cast<std::size_t>(op)];
    const std::int64_t index = index_of(instruction);
    if (index < 0 || index >= static_cast<std::int64_t>(ends.size())) return never;
    return ends[static_cast<std::size_t>(index)];
  }

  std::int64_t end_everywhere(Op op, const Instruction& instruction) const {
    std::int64_t latest = 0;
    for (std::size_t r = 0; r < lists_.size(); ++r) {
      const std::int64_t end = end_of(r, op, instruction);
      if (end == never) return never;
      latest = std::max(latest, end);
    }
    return latest;
  }

  void record(std::size_t r, const Instruction& instruction, std::int64_t end) {
    stages_[r].clock = end;
    auto& ends = stages_[r].ends[static_cast<std::size_t>(instruction.op)];
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
      text += fmt::format("{}stage {} waits for ever at {}", text.empty() ? "" : "; ", r,
                          describe(lists_[r][done]));
    }
    return text;
  }

  const Lists& lists_;
  Costs costs_;
  std::vector<Stage> stages_;
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

Execution execute(const Lists& lists, const Costs& costs) {
  return Executor(lists, costs).run();
}

double steady_ticks_per_batch(const Spec& spec, const Costs& costs) {
  // Batches enough on both sides of those measured that neither filling nor draining is seen.
  const std::int64_t margin = 2 + (spec.stages + spec.extra) / spec.microbatches;
  const std::int64_t first = synchronous_batches(spec) + 2 * margin;
  const std::int64_t measured = 4 * margin;
  Spec longer = spec;
  longer.evaluate_every = 0;
  longer.updates = first + measured + margin;

  const Lists lists = all_instructions(longer);
  const Execution execution = execute(lists, costs);
  const auto end_of_batch = [&](std::int64_t batch) {
    return backward_end(lists, execution, (batch + 1) * spec.microbatches - 1);
  };
  return static_cast<double>(end_of_batch(first + measured) - end_of_batch(first)) /
         static_cast<double>(measured);
}

}  // namespace twobw::schedule
