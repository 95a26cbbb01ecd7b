// Host memory between a stage's thread and its GPU: a microbatch's tensors on their way to the device, and
// what updates came to on its way back. Copies are queued like everything else, so that the thread waits for
// none but those of long ago.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "engine/data/batch.h"
#include "engine/device/gpu.h"
#include "engine/device/stream_event.h"
#include "engine/optim/kernels_cuda.h"
#include "engine/runtime/microbatches.h"

namespace twobw::runtime::gpu {

// Host memory that the device copies from and to.
template <typename T>
class Pinned {
 public:
  explicit Pinned(std::size_t count) {
    device::check_cuda(cudaMallocHost(reinterpret_cast<void**>(&data_), count * sizeof(T)), "cudaMallocHost");
  }
  ~Pinned() { cudaFreeHost(data_); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  T* data() const { return data_; }

 private:
  T* data_ = nullptr;
};

// Microbatches are read into pinned memory ahead of the thread that sends them.
class Uploads {
 public:
  // `stream`: the calling thread's own.
  Uploads(const Config& config, const MicrobatchSource& microbatches, int replica, cudaStream_t stream);

  // Queues copies of a microbatch's tensors, the microbatches in their order. Waits until it has been read,
  // and for what was sent kOnTheirWay microbatches before.
  void send(std::int64_t microbatch, const data::Batch& to);

  double waited() const { return ahead_.waited(); }  // for reading, in seconds, in all

 private:
  static constexpr int kOnTheirWay = 4;  // microbatches, at most

  void read(std::int64_t microbatch);  // on the thread that reads, which has no part in CUDA
  std::size_t place(std::int64_t microbatch) const {
    return static_cast<std::size_t>(microbatch % ahead_.places());
  }

  MicrobatchSource microbatches_;  // of the thread that reads
  int replica_;
  std::int64_t count_;  // elements of all the tensors of a microbatch, 8 bytes each
  cudaStream_t stream_;
  std::vector<device::StreamEvent> sent_;  // by place
  Pinned<std::int64_t> buffer_;
  ReadAhead ahead_;  // the last: its thread uses the others
};

// An update is asked for before the one kAhead after it is fetched.
class Results {
 public:
  static constexpr int kAhead = 8;  // updates whose results may be on their way
  struct Result {
    optim::cuda::Control control;
    double loss;  // where it was fetched
  };

  explicit Results(cudaStream_t stream);  // the calling thread's own

  // Queue copies from the device. The control comes last.
  void fetch_loss(std::int64_t update, const at::Tensor& loss);  // a double
  void fetch_control(std::int64_t update, const optim::cuda::Control* control);

  // Waits for it. Once an update.
  const Result& await(std::int64_t update);

 private:
  void fetch(void* to, const void* from, std::size_t size);

  cudaStream_t stream_;
  Pinned<Result> buffer_;
  std::map<std::int64_t, device::StreamEvent> fetched_;
};

class HostCopies {
 public:
  explicit HostCopies(int gpu);

  // Of the tensor as it is after what the stage has queued so far. Does not wait.
  at::Tensor copy(const at::Tensor& tensor);

  // What the stage queues from now on comes after the copies: it may write the tensors.
  void await();

  // After all copies so far.
  const device::StreamEvent& made() const { return made_; }

 private:
  c10::cuda::CUDAStream stream_;
  device::StreamEvent made_;
  bool pending_ = false;
};

}  // namespace twobw::runtime::gpu
