#include <atomic>
#include <new>

#include "engine/device/gpu.h"
#include "engine/device/stream_gate.h"

namespace twobw::device {
namespace {

__device__ unsigned long long nanoseconds() {
  unsigned long long now = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

// Until the gate was opened for the `turn`-th time.
__global__ void wait_kernel(const volatile unsigned* opened, volatile unsigned* gave_up, unsigned turn,
                            unsigned long long limit) {
  const unsigned long long begin = nanoseconds();
  while (*opened < turn) {
    if (nanoseconds() - begin < limit) continue;
    *gave_up = turn;
    return;
  }
}

}  // namespace

StreamGate::StreamGate(std::chrono::nanoseconds limit) : limit_(limit) {
  void* memory = nullptr;
  check_cuda(cudaHostAlloc(&memory, sizeof(Words), cudaHostAllocMapped | cudaHostAllocPortable),
             "cudaHostAlloc");
  words_ = new (memory) Words;
  void* mapped = nullptr;
  const cudaError_t error = cudaHostGetDevicePointer(&mapped, memory, 0);
  if (error != cudaSuccess) cudaFreeHost(memory);
  check_cuda(error, "cudaHostGetDevicePointer");
  on_gpu_ = static_cast<Words*>(mapped);
}

StreamGate::~StreamGate() {
  open();
  if (closed_ > 0) cudaStreamSynchronize(stream_);  // which may still read the words
  cudaFreeHost(words_);
}

// The launch returns its own error; an older one of this thread is not asked for.
void StreamGate::close(cudaStream_t stream) {
  open();
  stream_ = stream;
  const volatile unsigned* opened = &on_gpu_->opened;
  volatile unsigned* gave_up = &on_gpu_->gave_up;
  unsigned turn = closed_ + 1;
  auto limit = static_cast<unsigned long long>(limit_.count());
  void* arguments[] = {&opened, &gave_up, &turn, &limit};
  const auto* kernel = reinterpret_cast<const void*>(&wait_kernel);
  check_cuda(cudaLaunchKernel(kernel, dim3(1), dim3(1), arguments, 0, stream), "cudaLaunchKernel");
  closed_ = turn;
}

bool StreamGate::open() {
  const bool in_time = closed_ == 0 || std::atomic_ref(words_->gave_up).load() != closed_;
  std::atomic_ref(words_->opened).store(closed_);
  return in_time;
}

}  // namespace twobw::device
