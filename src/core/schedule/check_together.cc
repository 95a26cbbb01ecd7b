// Properties of the lists of all stages: shape, progress, and order on the links.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/schedule/checks.h"
#include "core/schedule/execution.h"

namespace twobw::schedule {
namespace {

// The batch belongs to the run, or is the update before a resumed one.
bool of_the_run(const Spec& spec, const Instruction& instruction) {
  const bool before = instruction.batch + 1 == spec.first_batch;
  if (instruction.op == Op::Restore) return before;
  if (instruction.op == Op::Evaluate && before) return true;
  return instruction.batch >= spec.first_batch && instruction.batch < spec.updates;
}

// Stage r has the neighbor that the op exchanges messages with.
bool has_peer(const Spec& spec, int stage, Op op) {
  if (op == Op::RecvActivation || op == Op::SendGradient) return stage > 0;
  if (op == Op::SendActivation || op == Op::RecvGradient) return stage + 1 < spec.shape.stages;
  return true;
}

bool well_formed(const Spec& spec, int stage, const Instruction& instruction) {
  const bool microbatch = info(instruction.op).of_microbatch
                              ? instruction.microbatch / spec.shape.microbatches == instruction.batch &&
                                    instruction.microbatch >= 0
                              : instruction.microbatch == -1;
  const bool version = info(instruction.op).of_version
                           ? instruction.version >= 0 && instruction.version <= spec.updates
                           : instruction.version == -1;
  return microbatch && version && instruction.batch >= 0 && of_the_run(spec, instruction) &&
         has_peer(spec, stage, instruction.op);
}

// A message on a link; evaluations send their activations over the same link.
struct Message {
  Op op = Op::SendActivation;
  std::int64_t number = 0;
  friend bool operator==(const Message&, const Message&) = default;
};

// The `op`s of a list as messages named `as`, so that both ends compare equal; optionally with evaluations.
std::vector<Message> messages(List list, Op op, Op as, bool evaluations) {
  std::vector<Message> found;
  for (const Instruction& instruction : list) {
    if (instruction.op == op) found.push_back({as, instruction.microbatch});
    if (evaluations && instruction.op == Op::Evaluate) found.push_back({Op::Evaluate, instruction.batch});
  }
  return found;
}

std::string message_at(const std::vector<Message>& messages, std::size_t i) {
  if (i >= messages.size()) return "nothing";
  return fmt::format("{} {}", name(messages[i].op), messages[i].number);
}

std::string compare(const std::vector<Message>& sent, const std::vector<Message>& received, int from,
                    int to) {
  const auto [s, r] = std::mismatch(sent.begin(), sent.end(), received.begin(), received.end());
  if (s == sent.end() && r == received.end()) return {};
  const auto i = static_cast<std::size_t>(s - sent.begin());
  return fmt::format("message {} from stage {} to {} is sent as {} and received as {}", i, from, to,
                     message_at(sent, i), message_at(received, i));
}

}  // namespace

std::string check_shape(const Spec& spec, const Lists& lists) {
  if (std::ssize(lists) != spec.shape.stages)
    return fmt::format("{} lists for {} stages", lists.size(), spec.shape.stages);
  for (int stage = 0; stage < spec.shape.stages; ++stage) {
    for (const Instruction& instruction : lists[static_cast<std::size_t>(stage)]) {
      if (!well_formed(spec, stage, instruction))
        return fmt::format("stage {}: {}", stage, describe(instruction));
    }
  }
  return {};
}

std::string check_progress(const Spec& spec, const Lists& lists) {
  const int replicas = spec.shape.replicas;
  return execute(of_all_replicas(spec, lists), {}, replicas, /*only_one=*/replicas == 1).deadlock;
}

std::string check_links(const Spec& spec, const Lists& lists) {
  // Under stash every stage evaluates right after its own update, so the order differs between stages.
  const bool evaluations = spec.shape.schedule != Kind::Stash;
  for (int r = 0; r + 1 < spec.shape.stages; ++r) {
    const List near = lists[static_cast<std::size_t>(r)];
    const List far = lists[static_cast<std::size_t>(r) + 1];
    std::string problem =
        compare(messages(near, Op::SendActivation, Op::SendActivation, evaluations),
                messages(far, Op::RecvActivation, Op::SendActivation, evaluations), r, r + 1);
    if (problem.empty()) {
      problem = compare(messages(far, Op::SendGradient, Op::SendGradient, false),
                        messages(near, Op::RecvGradient, Op::SendGradient, false), r + 1, r);
    }
    if (!problem.empty()) return problem;
  }
  return {};
}

}  // namespace twobw::schedule
