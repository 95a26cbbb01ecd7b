// One step of a worker's list. The runtime executes it, the checker proves it, the grid draws it; only
// schedule_rule.h decides the order.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace twobw::schedule {

enum class Op : std::uint8_t {
  BeginBatch,       // batch j may start here; the run may decline it and end
  RecvActivation,   // wait for the input of microbatch k from stage r-1
  Forward,          // on weights `version`, into activation slot `slot`
  SendActivation,   // to stage r+1
  RecvGradient,     // wait for the gradient of k's output from stage r+1
  Backward,         // on weights `version`, freeing `slot`; accumulates into batch j's gradients
  SendGradient,     // to stage r-1
  ReducePartial,    // start the sum over replicas of the first gradients of batch j, for Predict of j+1
  ReduceGradients,  // batch j's gradients are complete: start everything that crosses stages and replicas
  Step,             // apply update j: wait for those sums, write weights `version` = W(j+1)
  Predict,          // write P(j), `version` = j, from W(j-1) and the first gradients of batch j-1
  SaveCompute,      // copy the older weights of batch j+1, from `generation` on, for the cut `version` = j+1
  Save,             // copy W(j+1), `version`, and the optimizer state after that update
  Restore,          // of a resumed run, instead of Step: write weights `version` = W(j+1) from the checkpoint
  Evaluate,         // forward the validation data on weights `version` = W(j+1), the newest
};
inline constexpr int kOps = 15;

struct Instruction {
  Op op = Op::Forward;
  std::int64_t batch = 0;
  std::int64_t microbatch = -1;  // -1 if the op concerns a whole batch
  std::int64_t version = -1;     // -1 if the op reads and writes no weights
  int slot = -1;                 // Forward and Backward only
  bool predicted = false;        // `version` t means P(t), else W(t)
  std::int64_t generation = -1;  // place of these weights in the weight buffers (generation_of in spec.h)

  friend bool operator==(const Instruction&, const Instruction&) = default;
};

// Name of an op, and which fields its instructions have.
struct OpInfo {
  std::string_view name;
  bool of_microbatch = false;
  bool of_version = false;
};
const OpInfo& info(Op op);
inline std::string_view name(Op op) {
  return info(op).name;
}

// "Forward microbatch 5 (batch 1) on W(0)", as reports show it.
std::string describe(const Instruction& instruction);

// An executed instruction. Runtime and simulator both emit these, so that measured and modeled timelines are
// drawn and summed by the same code.
struct Event {
  int stage = 0;
  Instruction instruction;
  double begin = 0;  // seconds since the run began
  double end = 0;
  int replica = 0;
};

}  // namespace twobw::schedule
