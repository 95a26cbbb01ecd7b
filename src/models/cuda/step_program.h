// A decoder's step, or several, as one kernel: its blocks stay on the GPU and take one instruction after the
// other together, while the weights of all products come as one stream.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "models/cuda/step_notes.h"

namespace twobw::models::cuda {

// As it is, but for tests and measurements.
struct StepTuning {
  int most_depth = 6;  // stages of 32 KB of a block's ring; 2 or more
  int most_asked = 8;  // quarters of stages that are on their way at once; 4 or more
  int most_rows = 2;   // more are faster with kernels one by one: their products leave no room for a ring
  bool joins_in_products = true;  // products put attention's parts together, where these are few
};

// Of this thread; as they are, but for measurements.
bool& steps_in_one_kernel();
StepTuning& step_tuning();

class StepProgram {
 public:
  // Of what was noted. Null where that is not of one 16-bit type, has no product or too many rows, or the
  // current GPU has no room for it or cannot run it (GPUs before Hopper). Allocates on the GPU, and waits.
  static std::unique_ptr<StepProgram> of(const StepNotes& notes, const StepTuning& tuning = {});

  virtual ~StepProgram() = default;
  // Not twice at the same time. Gives what the launch says.
  virtual cudaError_t launch(cudaStream_t stream) const = 0;

  virtual int depth() const = 0;     // of the rings
  virtual int barriers() const = 0;  // of all blocks
};

}  // namespace twobw::models::cuda
