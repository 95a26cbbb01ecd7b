// The contract of links between GPUs, in addition to Links (tests/engine/transport/link_contract.h), and
// helpers of their kinds.
#pragma once

#include <c10/cuda/CUDAStream.h>

#include <string>

#include "engine/device/gpu_thread.h"
#include "tests/engine/transport/link_contract.h"

namespace twobw::transport {

inline std::string gpus_missing(int needed) {
  const int gpus = device::gpu_count();
  if (gpus >= needed) return {};
  return gpus == 0 ? "no GPU here" : "one GPU here, and this needs two";
}

inline device::Device whole_gpu(int gpu) {
  return {.gpu = GpuSlice{.gpu = gpu}};
}

inline device::Device half_gpu(int slice) {
  return {.gpu = GpuSlice{.gpu = 0, .slice = slice, .slices = 2}};
}

template <typename Kind>
class GpuLinks : public Links<Kind> {
 protected:
  // Enough work that the queue is still busy when the call returns.
  static constexpr int kAdditions = 500;
  static constexpr std::int64_t kLarge = 1 << 26;

  static bool queue_is_busy() { return !c10::cuda::getCurrentCUDAStream().query(); }
};

TYPED_TEST_SUITE_P(GpuLinks);

// The receiver gets the results of queued work, and neither thread waits for it.
TYPED_TEST_P(GpuLinks, CarryWhatTheSenderHasStillToCompute) {
  for (const int additions : {0, this->kAdditions}) {
    const bool first = additions == 0;  // makes connections and takes memory
    this->sender().run([&] {
      const at::Tensor numbers = at::zeros({this->kLarge}, this->at_sender());
      for (int i = 0; i < additions; ++i) numbers.add_(1);
      this->link().send({Tag::Kind::Activation, 0}, {numbers});
      EXPECT_TRUE(first || this->queue_is_busy()) << "too little work to show anything";
    });
    this->receiver().run([&] {
      const at::Tensor received = this->link().receive({Tag::Kind::Activation, 0}).front();
      EXPECT_TRUE(first || this->queue_is_busy()) << "received only when it was there";
      EXPECT_TRUE(received.eq(additions).all().template item<bool>());
    });
  }
}

REGISTER_TYPED_TEST_SUITE_P(GpuLinks, CarryWhatTheSenderHasStillToCompute);

}  // namespace twobw::transport
