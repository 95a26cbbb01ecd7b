#include "core/schedule/instruction.h"

#include <fmt/format.h>

namespace twobw::schedule {

const OpInfo& info(Op op) {
  static constexpr OpInfo kInfo[kOps] = {
      {.name = "BeginBatch"},
      {.name = "RecvActivation", .of_microbatch = true},
      {.name = "Forward", .of_microbatch = true, .of_version = true},
      {.name = "SendActivation", .of_microbatch = true},
      {.name = "RecvGradient", .of_microbatch = true},
      {.name = "Backward", .of_microbatch = true, .of_version = true},
      {.name = "SendGradient", .of_microbatch = true},
      {.name = "ReducePartial"},
      {.name = "ReduceGradients"},
      {.name = "Step", .of_version = true},
      {.name = "Predict", .of_version = true},
      {.name = "SaveCompute", .of_version = true},
      {.name = "Save", .of_version = true},
      {.name = "Restore", .of_version = true},
      {.name = "Evaluate", .of_version = true},
  };
  return kInfo[static_cast<std::size_t>(op)];
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
