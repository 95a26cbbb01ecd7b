// Tokens that the GPU writes straight into the host's memory, and the wait for them: no copy is queued, and
// nothing of the GPU stands between two steps.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace twobw::inference {

// Slots of one token a row, in pinned memory that the GPU sees.
class ToldTokens {
 public:
  ToldTokens(std::int64_t slots, std::int64_t rows);

  // Where the GPU writes those of a slot.
  std::int64_t* on_gpu(std::int64_t slot) const { return on_gpu_ + slot * rows_; }

  // Before what writes to these slots is queued, and after what wrote to them has ended.
  void clear(std::int64_t first, std::int64_t count);

  // Until the GPU has written all of a slot. `query` says how the GPU stands, as cudaStreamQuery; throws
  // RunError where it says that it failed, or has done all and has not written them.
  std::vector<std::int64_t> await(std::int64_t slot, const std::function<cudaError_t()>& query) const;

 private:
  struct Free {
    void operator()(std::int64_t* memory) const { cudaFreeHost(memory); }
  };
  std::int64_t rows_;
  std::unique_ptr<std::int64_t[], Free> host_;
  std::int64_t* on_gpu_ = nullptr;
};

}  // namespace twobw::inference
