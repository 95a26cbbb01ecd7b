// Buffers around a stage on a GPU: pinned host memory for the tensors of microbatches on their way to the
// device, for results of updates and copies for checkpoints on their way back; and the tensors that other
// stages send. Copies are queued, so that the thread waits only for old ones.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "core/base/memory_terms.h"
#include "engine/data/batch.h"
#include "engine/device/clock.h"
#include "engine/device/gpu.h"
#include "engine/optim/kernels_cuda.h"
#include "engine/runtime/microbatches.h"
#include "engine/runtime/stage_compute.h"

namespace twobw::runtime::gpu {

// Pinned host memory.
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

// Reads microbatches into pinned memory ahead of the thread that uploads them.
class Uploads {
 public:
  // `stream`: the calling thread's own.
  Uploads(const Config& config, const MicrobatchSource& microbatches, int replica, cudaStream_t stream);

  // Queues the upload of a microbatch, in order. Waits until it has been read, and for the upload kOnTheirWay
  // microbatches before.
  void send(std::int64_t microbatch, const data::Batch& to);

  double waited() const { return ahead_.waited(); }  // for data, in seconds, in total

 private:
  static constexpr int kOnTheirWay = 4;  // microbatches, at most

  void read(std::int64_t microbatch);  // on the reading thread, without CUDA
  std::size_t place(std::int64_t microbatch) const {
    return static_cast<std::size_t>(microbatch % ahead_.places());
  }

  MicrobatchSource microbatches_;  // of the thread that reads
  int replica_;
  std::int64_t count_;  // elements of a microbatch's tensors, 8 bytes each
  cudaStream_t stream_;
  std::vector<device::StreamEvent> sent_;  // by place
  Pinned<std::int64_t> buffer_;
  ReadAhead ahead_;  // the last: its thread uses the others
};

// Results of updates. An update is awaited before the one kAhead later is fetched.
class Results {
 public:
  static constexpr int kAhead = 8;  // updates in flight
  struct Result {
    optim::cuda::Control control;
    double loss;  // if fetched
  };

  explicit Results(cudaStream_t stream);  // the calling thread's own

  // Queue copies from the device, the control last.
  void fetch_loss(std::int64_t update, const at::Tensor& loss);  // a double
  void fetch_control(std::int64_t update, const optim::cuda::Control* control);

  // Waits for the result. Once for each update.
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

  // A copy of the tensor after the work queued so far. Does not wait.
  at::Tensor copy(const at::Tensor& tensor);

  // Orders work queued from now on after the copies, so that it may write the tensors.
  void await();

  // Completes after all copies so far.
  const device::StreamEvent& made() const { return made_; }

 private:
  c10::cuda::CUDAStream stream_;
  device::StreamEvent made_;
  bool pending_ = false;
};

// The tensors at a stage's boundaries. Graphs read and write fixed addresses, so incoming tensors are copied
// to fixed buffers, and outgoing gradients leave from their own buffers.
//
// Used by the stage's thread; copies are queued on its stream. Buffers are allocated on first use under
// capture_mutex(), which the caller must not hold.
class Boundary {
 public:
  // Counts the buffers in `footprint`, which outlives this.
  Boundary(const StageSetup& setup, Footprint& footprint);

  // Copies a microbatch's inputs to inputs(slot).
  void take_inputs(int slot, const models::Tensors& inputs);
  const models::Tensors& inputs(int slot) const { return slots_[slot].inputs; }

  // The gradients for a slot's backward at a fixed address: their own, if the setup promises that it is fixed
  // (asserted), else that of a copy, which the next backward overwrites.
  const models::Tensors& take_gradients(int slot, const models::Tensors& gradients);

  // Copies of a microbatch's gradients that stay valid until the previous stage has used them.
  const models::Tensors& hand_back(std::int64_t microbatch, const models::Tensors& gradients);

 private:
  struct Places {
    models::Tensors inputs, gradients;
  };
  const models::Tensors& find(Places& slot, const models::Tensors& gradients);
  const models::Tensors& bring_in(const models::Tensors& gradients);

  int slots_before_;
  bool fixed_gradient_address_;
  Footprint& footprint_;
  std::vector<Places> slots_;
  models::Tensors gradients_in_;           // fixed copy, if they arrive at changing addresses
  std::vector<models::Tensors> outgoing_;  // gradients on their way to the previous stage
};

}  // namespace twobw::runtime::gpu
