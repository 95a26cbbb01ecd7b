// Copies of a stage's tensors in pinned host memory, made beside what it computes.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAStream.h>

#include "engine/device/stream_event.h"

namespace twobw::runtime::gpu {

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
