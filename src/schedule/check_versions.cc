// Which weights a microbatch runs on.
#include <fmt/format.h>

#include <vector>

#include "schedule/checks.h"

namespace twobw::schedule {
namespace {

// The design's table. It must not call version_of, from which the lists are made.
std::int64_t version_by_rule(const Spec& spec, std::int64_t batch, std::int64_t updates_made) {
  switch (spec.shape.schedule) {
    case Kind::Sequential:
    case Kind::GPipe:
    case Kind::Flush:
      return batch;
    case Kind::TwoBW:
      // Batch 0 alone, or the synchronous start and the batch that follows it, run on W(j).
      return batch <= spec.sync_updates ? batch : batch - 1;
    case Kind::Stash:
      return batch < spec.sync_updates ? batch : updates_made;
  }
  return -1;
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

std::string check_version_rule(const Spec& spec, int, List list) {
  const auto forward_versions = versions_by_microbatch(spec, list);
  std::int64_t updates_made = 0;
  for (const Instruction& instruction : list) {
    if (instruction.op == Op::Step) ++updates_made;
    std::int64_t expected = instruction.version;
    if (instruction.op == Op::Forward) expected = version_by_rule(spec, instruction.batch, updates_made);
    if (instruction.op == Op::Backward) {
      expected = forward_versions[static_cast<std::size_t>(instruction.microbatch)];
    }
    if (instruction.version != expected) {
      return fmt::format("{} must be on W({})", describe(instruction), expected);
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
