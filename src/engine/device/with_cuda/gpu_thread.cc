#include "engine/device/gpu_thread.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "engine/device/clock.h"
#include "engine/device/device.h"
#include "engine/device/gpu.h"
#include "engine/device/slices.h"
#include "engine/device/stream_gate.h"

namespace twobw::device {
namespace {

// Events are reused; a queued wait keeps its event alive. An event is recorded on the GPU that it was made
// for, and any GPU may wait for it.
class EventPool {
 public:
  explicit EventPool(unsigned flags) : flags_(flags) {}

  // For the calling thread's GPU.
  std::shared_ptr<void> take() {
    int gpu = 0;
    check_cuda(cudaGetDevice(&gpu), "cudaGetDevice");
    cudaEvent_t event = nullptr;
    {
      std::lock_guard lock(mutex_);
      std::vector<cudaEvent_t>& free = free_[gpu];
      if (!free.empty()) {
        event = free.back();
        free.pop_back();
      }
    }
    if (event == nullptr) check_cuda(cudaEventCreateWithFlags(&event, flags_), "cudaEventCreate");
    return {event, [this, gpu](void* used) {
              std::lock_guard lock(mutex_);
              free_[gpu].push_back(static_cast<cudaEvent_t>(used));
            }};
  }

 private:
  unsigned flags_;
  std::mutex mutex_;
  std::map<int, std::vector<cudaEvent_t>> free_;  // by GPU
};

// They outlive every worker; clocks use those with times.
EventPool& plain_events() {
  static auto* pool = new EventPool(cudaEventDisableTiming);
  return *pool;
}
EventPool& timed_events() {
  static auto* pool = new EventPool(cudaEventDefault);
  return *pool;
}

class StreamClock final : public Clock {
 public:
  StreamClock(cudaStream_t stream, std::chrono::steady_clock::time_point start)
      : stream_(stream), origin_(timed_events().take()) {
    check_cuda(cudaEventRecord(event(origin_), stream_), "cudaEventRecord");
    check_cuda(cudaEventSynchronize(event(origin_)), "cudaEventSynchronize");
    before_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  Timestamp now() override {
    Timestamp mark{.event = timed_events().take()};
    check_cuda(cudaEventRecord(event(mark.event), stream_), "cudaEventRecord");
    return mark;
  }

  void await(const Timestamp& mark) override {
    check_cuda(cudaEventSynchronize(event(mark.event)), "cudaEventSynchronize");
  }

  double seconds(const Timestamp& mark) const override { return before_ + between({.event = origin_}, mark); }

  // CUDA's resolution is half a microsecond, in a float: the longer ago the start, the coarser is seconds().
  double between(const Timestamp& from, const Timestamp& to) const override {
    float milliseconds = 0;
    check_cuda(cudaEventElapsedTime(&milliseconds, event(from.event), event(to.event)),
               "cudaEventElapsedTime");
    return milliseconds * 1e-3;
  }

  bool can_hold() const override { return true; }
  void hold() override {
    if (!gate_) gate_.emplace();
    gate_->close(stream_);
  }
  bool release() override { return !gate_ || gate_->open(); }

 private:
  static cudaEvent_t event(const std::shared_ptr<void>& event) {
    return static_cast<cudaEvent_t>(event.get());
  }

  cudaStream_t stream_;
  std::shared_ptr<void> origin_;
  double before_ = 0;
  std::optional<StreamGate> gate_;  // made by the first hold()
};

thread_local cudaStream_t this_stream = nullptr;

void queue_on(cudaStream_t stream, int gpu) {
  c10::cuda::setCurrentCUDAStream(
      c10::cuda::getStreamFromExternal(stream, static_cast<c10::DeviceIndex>(gpu)));
  this_stream = stream;
}

// One set of slices for all workers that name it.
std::mutex slices_mutex;

std::shared_ptr<Slices> slices_of(int gpu, int count) {
  static std::map<std::pair<int, int>, std::weak_ptr<Slices>> made;
  std::weak_ptr<Slices>& known = made[{gpu, count}];
  std::shared_ptr<Slices> slices = known.lock();
  if (!slices) known = slices = std::make_shared<Slices>(gpu, count);
  return slices;
}

int multiprocessors_of(int gpu) {
  int count = 0;
  check_cuda(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, gpu), "cudaDeviceGetAttribute");
  return count;
}

class AllocatorMeter final : public Meter {
 public:
  explicit AllocatorMeter(int gpu) : gpu_(static_cast<c10::DeviceIndex>(gpu)) {}
  double live() const override { return static_cast<double>(statistics().current); }
  double peak() const override { return static_cast<double>(statistics().peak); }
  void reset_peak() override { c10::cuda::CUDACachingAllocator::resetPeakStats(gpu_); }

 private:
  c10::CachingAllocator::Stat statistics() const {
    return c10::cuda::CUDACachingAllocator::getDeviceStats(gpu_).allocated_bytes[0];
  }
  c10::DeviceIndex gpu_;
};

}  // namespace

struct GpuThread::State {
  int gpu = 0;
  std::shared_ptr<Slices> slices;  // none: a whole GPU
  cudaStream_t stream = nullptr;
  void* workspace = nullptr;
};

GpuThread::GpuThread(const GpuSlice& slice) : state_(std::make_unique<State>()) {
  state_->gpu = slice.gpu;
  constexpr std::size_t kWorkspace = 32 << 20;  // what cuBLAS asks for on this kind of GPU
  check_cuda(cudaSetDevice(slice.gpu), "cudaSetDevice");
  int multiprocessors = multiprocessors_of(slice.gpu);
  {
    std::lock_guard lock(slices_mutex);
    if (slice.slices > 1) {
      state_->slices = slices_of(slice.gpu, slice.slices);
      multiprocessors = whole_rounds(multiprocessors, state_->slices->multiprocessors(slice.slice));
      state_->stream = state_->slices->make_stream(slice.slice);
    } else {
      check_cuda(cudaStreamCreateWithFlags(&state_->stream, cudaStreamNonBlocking), "cudaStreamCreate");
    }
  }
  check_cuda(cudaMalloc(&state_->workspace, kWorkspace), "cudaMalloc");
  register_gpu_stream(state_->stream, {.gpu = slice.gpu,
                                       .product_multiprocessors = multiprocessors,
                                       .workspace = state_->workspace,
                                       .workspace_bytes = kWorkspace,
                                       .deterministic = at::globalContext().deterministicAlgorithms()});
  queue_on(state_->stream, slice.gpu);
}

GpuThread::~GpuThread() {
  forget_gpu_stream(state_->stream);
  cudaFree(state_->workspace);
  if (!state_->slices) cudaStreamDestroy(state_->stream);
}

at::TensorOptions GpuThread::compute_options(const std::string& precision) const {
  return at::TensorOptions(number_format(precision))
      .device(c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(state_->gpu)));
}

std::unique_ptr<Clock> GpuThread::make_clock(std::chrono::steady_clock::time_point start) const {
  return std::make_unique<StreamClock>(state_->stream, start);
}

StreamScope::StreamScope(cudaStream_t stream, int gpu)
    : before_(this_stream),
      there_(c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(gpu))),
      gpu_(gpu) {
  queue_on(stream, gpu);
}

StreamScope::~StreamScope() {
  queue_on(there_, gpu_);
  this_stream = before_;
}

StreamEvent record_stream_event(cudaStream_t stream) {
  StreamEvent ready = plain_events().take();
  check_cuda(cudaEventRecord(static_cast<cudaEvent_t>(ready.get()), stream), "cudaEventRecord");
  return ready;
}

void await_stream_event(const StreamEvent& ready, cudaStream_t stream) {
  check_cuda(cudaStreamWaitEvent(stream, static_cast<cudaEvent_t>(ready.get()), 0), "cudaStreamWaitEvent");
}

StreamEvent record_stream_event() {
  return this_stream == nullptr ? nullptr : record_stream_event(this_stream);
}

void await_stream_event(const StreamEvent& ready) {
  if (!ready) return;
  TWOBW_ASSERT(this_stream != nullptr, "a thread without a GPU waits for one");
  await_stream_event(ready, this_stream);
}

bool block_until(const StreamEvent& ready, const std::function<bool()>& gives_up) {
  constexpr std::chrono::microseconds kBetween(20);
  while (ready) {
    const cudaError_t state = cudaEventQuery(static_cast<cudaEvent_t>(ready.get()));
    if (state == cudaSuccess) return true;
    if (state != cudaErrorNotReady) check_cuda(state, "what was queued on a GPU");
    if (gives_up()) return false;
    std::this_thread::sleep_for(kBetween);
  }
  return true;
}

int gpu_count() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

bool built_with_cuda() {
  return true;
}

std::vector<std::string> gpu_ids() {
  std::vector<std::string> ids;
  for (int gpu = 0; gpu < gpu_count(); ++gpu) {
    cudaDeviceProp properties{};
    check_cuda(cudaGetDeviceProperties(&properties, gpu), "cudaGetDeviceProperties");
    std::string id;
    for (const char byte : properties.uuid.bytes)
      id += fmt::format("{:02x}", static_cast<unsigned char>(byte));
    ids.push_back(std::move(id));
  }
  return ids;
}

bool has_bfloat16(const GpuSlice& slice) {
  constexpr int kAmpere = 8;
  int major = 0;
  check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, slice.gpu),
             "cudaDeviceGetAttribute");
  return major >= kAmpere;
}

GpuMemory gpu_memory(const GpuSlice& slice) {
  std::size_t free = 0, total = 0;
  check_cuda(cudaSetDevice(slice.gpu), "cudaSetDevice");
  check_cuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return {.free = static_cast<double>(free), .total = static_cast<double>(total)};
}

void release_unused_gpu_memory() {
  c10::cuda::CUDACachingAllocator::emptyCache();
}

std::string gpu_name(const GpuSlice& slice) {
  cudaDeviceProp properties{};
  check_cuda(cudaGetDeviceProperties(&properties, slice.gpu), "cudaGetDeviceProperties");
  return properties.name;
}

std::string describe_gpu(const GpuSlice& slice) {
  if (slice.slices == 1) return fmt::format("cuda: {}", gpu_name(slice));
  return fmt::format("cuda: one of {} slices of {}", slice.slices, gpu_name(slice));
}

std::unique_ptr<Meter> make_gpu_meter(const GpuSlice& slice) {
  return std::make_unique<AllocatorMeter>(slice.gpu);
}

}  // namespace twobw::device
