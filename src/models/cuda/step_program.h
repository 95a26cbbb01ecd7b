// A decoder's step, or several, as one kernel: its blocks stay on the GPU and take one instruction after the
// other together, while the weights of all products come as one stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "models/cuda/step_notes.h"

namespace twobw::models::cuda {

// For measurements: what the kernel does not do (its results are wrong then), and how deep rings may be.
struct StepTuning {
  enum LeftOut : unsigned { kBarriers = 1, kProducts = 2, kAttention = 4, kStaging = 8, kWeights = 16 };
  unsigned left_out = 0;
  int most_depth = 6;             // stages of 32 KB of a block's ring; 2 or more
  int most_asked = 8;             // quarters of stages that are on their way at once; 4 or more
  bool joins_in_products = true;  // products put attention's parts together, where these are few
  bool times = false;             // whether it notes when blocks come to what
};

// Of this thread; as they are, but for measurements.
bool& steps_in_one_kernel();
StepTuning& step_tuning();

// What blocks took of an instruction, in cycles: until all others had come, to stage the rows, for the rest.
struct StepTimes {
  StepKind kind;
  std::int64_t bytes;                                 // of weights
  double least_wait, wait, staging, rest, most_rest;  // over the blocks: the least, means, the most
  double ready_first = 0, ready_last = 0;             // stages that are there
};

class StepProgram {
 public:
  // Of what was noted. Null where that is not of one 16-bit type, has no product, or the current GPU has no
  // room for it or cannot run it (GPUs before Hopper). Allocates on the GPU, and waits.
  static std::unique_ptr<StepProgram> of(const StepNotes& notes, const StepTuning& tuning = {});

  virtual ~StepProgram() = default;
  // Not twice at the same time. Gives what the launch says.
  virtual cudaError_t launch(cudaStream_t stream) const = 0;

  virtual int depth() const = 0;     // of the rings
  virtual int barriers() const = 0;  // of all blocks
  // Of the last launch, after it has ended; none without StepTuning::times.
  virtual std::vector<StepTimes> times() const = 0;
};

}  // namespace twobw::models::cuda
