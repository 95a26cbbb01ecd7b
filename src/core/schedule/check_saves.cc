// Which cuts are saved, and when.
#include <fmt/format.h>

#include <set>

#include "core/schedule/checks.h"

namespace twobw::schedule {
namespace {

// The cut after t updates: batch t must run to make what it reads, but for the last of the run.
bool is_cut_due(const Spec& spec, std::int64_t cut) {
  if (!spec.saves) return false;
  if (cut == spec.updates) return spec.save_last;
  return spec.save_every > 0 && cut % spec.save_every == 0;
}

// The batches with a microbatch that reads something else than W(j).
std::set<std::int64_t> batches_on_older(List list) {
  std::set<std::int64_t> batches;
  for (const Instruction& instruction : list) {
    if (instruction.op != Op::Forward) continue;
    if (instruction.predicted || instruction.version < instruction.batch) batches.insert(instruction.batch);
  }
  return batches;
}

}  // namespace

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
                                       : "comes without what the batch after it reads");
    ++next;
    skip_to_due();
  }
  if (next <= spec.updates) return fmt::format("Save for W({}) is missing", next);
  return {};
}

}  // namespace twobw::schedule
