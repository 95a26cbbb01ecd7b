// What a stage holds: microbatches in flight, activation slots, weight and gradient buffers.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

#include "schedule/checks.h"

namespace twobw::schedule {
namespace {

constexpr std::int64_t nobody = -1;

// With prediction the true weights are the optimizer's: what is computed with is written by Predict, and by
// the steps of the synchronous start, whose W(j) is what batch j runs on.
bool keeps_true_weights_apart(const Spec& spec) {
  return spec.shape.schedule == Kind::TwoBW && spec.shape.predict;
}

bool uses_weights(const Spec& spec, Op op) {
  return op == Op::Forward || op == Op::Backward || (op == Op::Evaluate && !keeps_true_weights_apart(spec));
}

bool writes_weights(const Spec& spec, const Instruction& instruction) {
  if (instruction.op == Op::Predict) return true;
  if (instruction.op != Op::Step) return false;
  return !keeps_true_weights_apart(spec) || instruction.version <= spec.sync_updates;
}

// Version t lies in buffer t % n. Whoever reads W(t) finds it there, or it was overwritten too early;
// that covers microbatches in flight and those still to come.
class WeightBuffers {
 public:
  WeightBuffers(int n) : holds_(static_cast<std::size_t>(n), nobody) { holds_[0] = 0; }

  std::int64_t in_buffer_of(std::int64_t version) const { return holds_[index(version)]; }
  void write(std::int64_t version) { holds_[index(version)] = version; }

 private:
  std::size_t index(std::int64_t version) const { return static_cast<std::size_t>(version) % holds_.size(); }
  std::vector<std::int64_t> holds_;
};

std::string lost(const Instruction& instruction, std::int64_t version, std::int64_t found) {
  if (found == nobody)
    return fmt::format("{} reads version {}, which is not written yet", describe(instruction), version);
  return fmt::format("{} reads version {}, but its buffer holds {}", describe(instruction), version, found);
}

// Index of the last instruction that runs on each version, -1 if none does.
std::vector<std::int64_t> last_uses(const Spec& spec, List list) {
  std::vector<std::int64_t> last(static_cast<std::size_t>(spec.updates) + 1, -1);
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (uses_weights(spec, list[i].op))
      last[static_cast<std::size_t>(list[i].version)] = static_cast<std::int64_t>(i);
  }
  return last;
}

}  // namespace

int peak_in_flight(List list) {
  int in_flight = 0;
  int peak = 0;
  for (const Instruction& instruction : list) {
    if (instruction.op == Op::Forward) peak = std::max(peak, ++in_flight);
    if (instruction.op == Op::Backward) --in_flight;
  }
  return peak;
}

// A version is live from the Step or Predict that writes it to its last use, the newest in any case until the
// next has read it. The number of live ones can only grow there.
int peak_versions(const Spec& spec, List list) {
  const auto last_use = last_uses(spec, list);
  std::set<std::int64_t> written = {0};
  std::size_t peak = 1;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (!writes_weights(spec, list[i])) continue;
    std::erase_if(written, [&](std::int64_t version) {
      return last_use[static_cast<std::size_t>(version)] < static_cast<std::int64_t>(i);
    });
    written.insert(list[i].version);
    peak = std::max(peak, written.size());
  }
  return static_cast<int>(peak);
}

int peak_gradient_buffers(const Spec&, List list) {
  std::set<std::int64_t> waiting;
  std::size_t peak = 0;
  for (const Instruction& instruction : list) {
    if (instruction.op == Op::Backward) waiting.insert(instruction.batch);
    if (instruction.op == Op::Step) waiting.erase(instruction.batch);
    peak = std::max(peak, waiting.size());
  }
  return static_cast<int>(peak);
}

std::string check_in_flight(const Spec& spec, int stage, List list) {
  const int peak = peak_in_flight(list);
  const int bound = in_flight_bound(spec, stage);
  if (peak > bound) return fmt::format("{} microbatches in flight, bound {}", peak, bound);
  return {};
}

std::string check_slots(const Spec& spec, int stage, List list) {
  std::vector<std::int64_t> slots(static_cast<std::size_t>(in_flight_bound(spec, stage)), nobody);
  for (const Instruction& instruction : list) {
    if (instruction.op != Op::Forward && instruction.op != Op::Backward) continue;
    const auto slot = static_cast<std::size_t>(instruction.slot);  // a negative one is out of range too
    if (slot >= slots.size()) {
      return fmt::format("{} has slot {} of {}", describe(instruction), instruction.slot, slots.size());
    }
    const std::int64_t expected = instruction.op == Op::Forward ? nobody : instruction.microbatch;
    if (slots[slot] != expected) {
      return fmt::format("{} finds {} in slot {}", describe(instruction),
                         slots[slot] == nobody ? "nothing" : fmt::format("microbatch {}", slots[slot]), slot);
    }
    slots[slot] = instruction.op == Op::Forward ? instruction.microbatch : nobody;
  }
  return {};
}

std::string check_weight_buffers(const Spec& spec, int stage, List list) {
  WeightBuffers buffers(versions_kept(spec, stage));
  for (const Instruction& instruction : list) {
    const bool writes = writes_weights(spec, instruction);
    if (!writes && !uses_weights(spec, instruction.op)) continue;
    if (instruction.op != Op::Predict) {  // which reads true weights
      const std::int64_t read = writes ? instruction.batch : instruction.version;
      const std::int64_t found = buffers.in_buffer_of(read);
      if (found != read) return lost(instruction, read, found);
    }
    if (writes) buffers.write(instruction.version);
  }
  const int peak = peak_versions(spec, list);
  if (peak > versions_kept(spec, stage)) {
    return fmt::format("{} live versions, room for {}", peak, versions_kept(spec, stage));
  }
  return {};
}

std::string check_gradient_buffers(const Spec& spec, int stage, List list) {
  std::vector<std::int64_t> owners(static_cast<std::size_t>(gradient_buffers(spec, stage)), nobody);
  for (const Instruction& instruction : list) {
    const Op op = instruction.op;
    if (op == Op::Predict) {
      const std::int64_t before = instruction.batch - 1;
      if (owners[static_cast<std::size_t>(before) % owners.size()] != before)
        return fmt::format("{} finds no gradient of batch {}", describe(instruction), before);
    }
    if (op != Op::Backward && op != Op::Step) continue;
    std::int64_t& owner = owners[static_cast<std::size_t>(instruction.batch) % owners.size()];
    if (op == Op::Step) {
      if (owner != instruction.batch)
        return fmt::format("{} finds no gradient of its own", describe(instruction));
      owner = nobody;
    } else if (owner == nobody) {
      owner = instruction.batch;
    } else if (owner != instruction.batch) {
      return fmt::format("{} finds the gradient of batch {} in its buffer", describe(instruction), owner);
    }
  }
  return {};
}

}  // namespace twobw::schedule
