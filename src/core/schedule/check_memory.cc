// Memory of a stage: microbatches in flight, activation slots, weight and gradient buffers. Each check walks
// over the list.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "core/schedule/checks.h"

namespace twobw::schedule {
namespace {

constexpr std::int64_t nobody = -1;

// With prediction the optimizer keeps the true weights.
bool keeps_true_weights_apart(const Spec& spec) {
  return spec.shape.schedule == Kind::TwoBW && spec.shape.predict;
}

bool computes_with_weights(Op op) {
  return op == Op::Forward || op == Op::Backward;
}

// True weights that microbatches run on. Without prediction these are the weights of all steps; with
// prediction those of the synchronous start, or of all steps if batches switch to W(j).
std::set<std::int64_t> true_versions_used(List list) {
  std::set<std::int64_t> used;
  for (const Instruction& instruction : list) {
    if (computes_with_weights(instruction.op) && !instruction.predicted) used.insert(instruction.version);
  }
  return used;
}

// Contents of the weight buffers: generation g is in buffer g % n. A reader that finds other weights there
// proves that they were overwritten too early.
class WeightBuffers {
 public:
  struct Content {
    std::int64_t version = nobody;
    bool predicted = false;
    friend bool operator==(const Content&, const Content&) = default;
  };

  // Begins with W(0), or with the older weights that a resumed run's first batch reads from the checkpoint.
  WeightBuffers(const Spec& spec, int stage) : holds_(static_cast<std::size_t>(versions_kept(spec, stage))) {
    written_ = first_generation(spec);
    if (spec.first_batch == 0) holds_[0] = {.version = 0};
    if (spec.first_batch == 0) return;
    const auto older = older_generations(spec, stage, spec.first_batch);
    for (std::size_t i = 0; i < older.size(); ++i) {
      const bool predicted = is_predicted(spec, spec.first_batch);
      const auto behind = static_cast<std::int64_t>(older.size() - i);
      holds_[index(older[i])] = {.version = predicted ? spec.first_batch : spec.first_batch - behind,
                                 .predicted = predicted};
    }
  }

  const Content& at(std::int64_t generation) const { return holds_[index(generation)]; }
  // Returns true if the generation is the next one.
  bool write(std::int64_t generation, Content content) {
    holds_[index(generation)] = content;
    return generation == ++written_;
  }

 private:
  std::size_t index(std::int64_t generation) const {
    return static_cast<std::size_t>(generation) % holds_.size();
  }
  std::vector<Content> holds_;
  std::int64_t written_ = 0;
};

std::string lost(const Instruction& instruction, const WeightBuffers::Content& found) {
  if (found.version == nobody)
    return fmt::format("{} reads weights that are not written yet", describe(instruction));
  return fmt::format("{} finds {}({}) in its buffer", describe(instruction), found.predicted ? 'P' : 'W',
                     found.version);
}

bool writes_weights(Op op) {
  return op == Op::Step || op == Op::Predict || op == Op::Restore;
}

bool makes_true_weights(Op op) {
  return op == Op::Step || op == Op::Restore;
}

// Weights that the microbatches of each batch j read in addition to W(j), by generation.
using Reads = std::map<std::int64_t, std::map<std::int64_t, WeightBuffers::Content>>;
Reads older_reads(List list) {
  Reads reads;
  for (const Instruction& instruction : list) {
    if (instruction.op != Op::Forward) continue;
    if (instruction.predicted || instruction.version < instruction.batch)
      reads[instruction.batch][instruction.generation] = {.version = instruction.version,
                                                          .predicted = instruction.predicted};
  }
  return reads;
}

// SaveCompute copies exactly the older weights that the batch after the cut reads.
std::string check_copied(const Instruction& save, const WeightBuffers& buffers, Reads& reads) {
  const auto& read = reads[save.version];
  if (read.empty() || read.begin()->first != save.generation)
    return fmt::format("{} copies other weights than batch {} reads", describe(save), save.version);
  for (const auto& [generation, content] : read) {
    if (buffers.at(generation) != content) return lost(save, buffers.at(generation));
  }
  return {};
}

// Index of the last instruction that reads each generation.
std::map<std::int64_t, std::size_t> last_uses(const Spec& spec, List list) {
  std::map<std::int64_t, std::size_t> last;
  std::map<std::int64_t, std::int64_t> written = {{0, 0}};  // generation by version, of true weights
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (makes_true_weights(list[i].op)) written[list[i].version] = list[i].generation;
    if (computes_with_weights(list[i].op)) last[list[i].generation] = i;
    if (list[i].op == Op::Evaluate && !keeps_true_weights_apart(spec)) last[written[list[i].version]] = i;
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

// A version is live from the Step or Predict that writes it to its last use. The number of live versions can
// grow only at a Step or Predict.
int peak_versions(const Spec& spec, List list) {
  const auto last_use = last_uses(spec, list);
  std::set<std::int64_t> written;
  if (spec.first_batch == 0) written.insert(0);
  std::size_t peak = 1;
  for (std::size_t i = 0; i < list.size(); ++i) {
    // In a resumed run earlier weights become known when they are read.
    if (computes_with_weights(list[i].op)) written.insert(list[i].generation);
    if (!writes_weights(list[i].op) || list[i].generation < 0) continue;
    std::erase_if(written, [&](std::int64_t generation) {
      const auto last = last_use.find(generation);
      return last == last_use.end() || last->second < i;
    });
    written.insert(list[i].generation);
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
  WeightBuffers buffers(spec, stage);
  Reads reads = older_reads(list);
  const auto used = true_versions_used(list);
  std::map<std::int64_t, std::int64_t> generations = {{0, 0}};  // by version, of true weights
  for (const Instruction& instruction : list) {
    const Op op = instruction.op;
    const WeightBuffers::Content own = {.version = instruction.version, .predicted = instruction.predicted};
    if (computes_with_weights(op) && buffers.at(instruction.generation) != own)
      return lost(instruction, buffers.at(instruction.generation));
    if (op == Op::Evaluate && !keeps_true_weights_apart(spec)) {
      const WeightBuffers::Content& found = buffers.at(generations[instruction.version]);
      if (found != own) return lost(instruction, found);
    }
    if (op == Op::Step && !keeps_true_weights_apart(spec)) {
      const WeightBuffers::Content& found = buffers.at(generations[instruction.batch]);
      if (found != WeightBuffers::Content{.version = instruction.batch}) return lost(instruction, found);
    }
    if (op == Op::SaveCompute) {
      const std::string problem = check_copied(instruction, buffers, reads);
      if (!problem.empty()) return problem;
    }
    if (!writes_weights(op)) continue;
    if (instruction.generation < 0) {
      if (op == Op::Predict || !keeps_true_weights_apart(spec) || used.contains(instruction.version))
        return fmt::format("{} writes no weights to compute with", describe(instruction));
      continue;
    }
    if (!buffers.write(instruction.generation, own))
      return fmt::format("{} writes generation {} out of turn", describe(instruction),
                         instruction.generation);
    if (makes_true_weights(op)) generations[instruction.version] = instruction.generation;
  }
  const int peak = peak_versions(spec, list);
  if (peak > versions_kept(spec, stage)) {
    return fmt::format("{} live versions, buffers for {}", peak, versions_kept(spec, stage));
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
