#include "core/schedule/instruction.h"

#include <fmt/format.h>

namespace twobw::schedule {

std::string_view name(Op op) {
  switch (op) {
    case Op::BeginBatch:
      return "BeginBatch";
    case Op::RecvActivation:
      return "RecvActivation";
    case Op::Forward:
      return "Forward";
    case Op::SendActivation:
      return "SendActivation";
    case Op::RecvGradient:
      return "RecvGradient";
    case Op::Backward:
      return "Backward";
    case Op::SendGradient:
      return "SendGradient";
    case Op::ReducePartial:
      return "ReducePartial";
    case Op::ReduceGradients:
      return "ReduceGradients";
    case Op::Step:
      return "Step";
    case Op::Predict:
      return "Predict";
    case Op::SaveCompute:
      return "SaveCompute";
    case Op::Save:
      return "Save";
    case Op::Restore:
      return "Restore";
    case Op::Evaluate:
      return "Evaluate";
  }
  return "?";
}

std::string describe(const Instruction& instruction) {
  std::string text(name(instruction.op));
  if (instruction.microbatch >= 0) {
    text += fmt::format(" microbatch {} (batch {})", instruction.microbatch, instruction.batch);
  } else {
    text += fmt::format(" batch {}", instruction.batch);
  }
  if (instruction.version >= 0) {
    const Op op = instruction.op;
    const bool writes = op == Op::Step || op == Op::Predict || op == Op::Restore;
    const bool saves = op == Op::SaveCompute || op == Op::Save;
    text += fmt::format(" {} {}({})",
                        writes  ? "to"
                        : saves ? "for"
                                : "on",
                        instruction.predicted ? 'P' : 'W', instruction.version);
  }
  return text;
}

}  // namespace twobw::schedule
