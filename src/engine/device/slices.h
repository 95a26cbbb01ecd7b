// One GPU as several devices: CUDA green contexts that partition its multiprocessors. Work on a slice's
// streams runs on the slice's multiprocessors; memory is shared.
#pragma once

#include <cuda_runtime_api.h>

#include <vector>

namespace twobw::device {

inline constexpr int kSliceStep = 8;  // the driver's granularity in multiprocessors

// The whole GPU's multiprocessors, rounded up to a multiple of the slice's: the number that products on a
// slice are tuned for. Tuned for the slice's own number they take 25 to 50% longer
// (docs/benchmarks/performance.md).
constexpr int whole_rounds(int whole, int slice) {
  return (whole - whole % kSliceStep + slice - 1) / slice * slice;
}

class Slices {
 public:
  // Throws InputError if the GPU has too few multiprocessors, RunError if CUDA fails.
  Slices(int gpu, int count);
  ~Slices();
  Slices(const Slices&) = delete;
  Slices& operator=(const Slices&) = delete;

  int count() const { return static_cast<int>(contexts_.size()); }
  int multiprocessors(int slice) const { return multiprocessors_[slice]; }
  // A new non-blocking stream on the slice, with the lifetime of this.
  cudaStream_t make_stream(int slice);

 private:
  std::vector<void*> contexts_;  // CUgreenCtx
  std::vector<int> multiprocessors_;
  std::vector<cudaStream_t> streams_;
};

}  // namespace twobw::device
