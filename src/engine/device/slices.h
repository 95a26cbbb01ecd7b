// One GPU as several devices: its multiprocessors are dealt out to green contexts, and what runs on a
// slice's streams runs on its multiprocessors alone. Memory is common to all of them.
#pragma once

#include <cuda_runtime_api.h>

#include <vector>

namespace twobw::device {

inline constexpr int kSliceStep = 8;  // multiprocessors are dealt out in eights, as the driver wants it

// As many multiprocessors as the whole GPU has, in rounds of a slice's own: what products on a slice are made
// for. Made for the slice's own number they take a quarter to a half longer (docs/performance.md).
constexpr int whole_rounds(int whole, int slice) {
  return (whole - whole % kSliceStep + slice - 1) / slice * slice;
}

class Slices {
 public:
  // Throws InputError where the GPU cannot be cut into so many, RunError where CUDA fails.
  Slices(int gpu, int count);
  ~Slices();
  Slices(const Slices&) = delete;
  Slices& operator=(const Slices&) = delete;

  int count() const { return static_cast<int>(contexts_.size()); }
  int multiprocessors(int slice) const { return multiprocessors_[slice]; }
  // A new stream on the slice; it does not wait for the default stream. Lives as long as this.
  cudaStream_t make_stream(int slice);

 private:
  std::vector<void*> contexts_;  // CUgreenCtx
  std::vector<int> multiprocessors_;
  std::vector<cudaStream_t> streams_;
};

}  // namespace twobw::device
