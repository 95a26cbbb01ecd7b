// One step of a worker. Runtime executes it, the checker proves it, the grid draws it; nobody else
// decides an order.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace twobw::schedule {

enum class Op : std::uint8_t {
  BeginBatch,       // batch j may start from here on; the run may decline and end before it
  RecvActivation,   // wait for the input of microbatch k from stage r-1
  Forward,          // on weights `version`, into activation slot `slot`
  SendActivation,   // to stage r+1
  RecvGradient,     // wait for the gradient of k's output from stage r+1
  Backward,         // on weights `version`, freeing `slot`; accumulates into batch j's gradients
  SendGradient,     // to stage r-1
  ReducePartial,    // k_r of batch j's gradients are in: start their sum over replicas, for Predict of j+1
  ReduceGradients,  // batch j's gradients are complete here: start what crosses stages and replicas
  Step,             // apply update j: wait for what crosses them, write weights `version` = W(j+1)
  Predict,          // write P(j), `version` = j, from W(j-1) and the k_r gradients of batch j-1 that are in
  SaveCompute,  // copy what batch j+1 reads besides W(j+1), from `generation` on, for the cut `version` = j+1
  Save,         // copy W(j+1), `version`, and the optimizer's state then
  Restore,      // of a resumed run, in place of Step: write weights `version` = W(j+1) from the checkpoint
  Evaluate,     // forward the validation data on weights `version` = W(j+1), the newest
};

struct Instruction {
  Op op = Op::Forward;
  std::int64_t batch = 0;
  std::int64_t microbatch = -1;  // only ops of one microbatch
  std::int64_t version = -1;     // not ops of a batch's begin, of messages or of gradients
  int slot = -1;                 // only Forward and Backward
  bool predicted = false;        // whether `version` t means P(t), else W(t)
  std::int64_t generation = -1;  // of Forward and Backward, and of what writes weights to compute with

  friend bool operator==(const Instruction&, const Instruction&) = default;
};

std::string_view name(Op op);
// "Forward microbatch 5 (batch 1) on W(0)", as it appears in reports.
std::string describe(const Instruction& instruction);

}  // namespace twobw::schedule
