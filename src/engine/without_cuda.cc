// Stubs for builds without CUDA, or with a LibTorch without it.
#include "core/base/error.h"
#include "engine/device/clock.h"
#include "engine/device/device.h"
#include "engine/device/gpu_thread.h"
#include "engine/models/ops_cuda.h"
#include "engine/optim/optimizer.h"
#include "engine/runtime/stage_compute.h"
#include "engine/transport/link.h"
#include "engine/transport/replica_sum.h"

namespace twobw {

constexpr const char* kNoCuda = "this program was built without CUDA";

}  // namespace twobw

namespace twobw::device {

int gpu_count() {
  return 0;
}

bool built_with_cuda() {
  return false;
}

std::vector<std::string> gpu_ids() {
  return {};
}

bool has_bfloat16(const GpuSlice&) {
  return false;
}

GpuMemory gpu_memory(const GpuSlice&) {
  return {};
}

void release_unused_gpu_memory() {}

std::string gpu_name(const GpuSlice& slice) {
  return describe(slice);
}

std::string describe_gpu(const GpuSlice& slice) {
  return describe(slice);
}

std::unique_ptr<Meter> make_gpu_meter(const GpuSlice&) {
  return nullptr;
}

struct GpuThread::State {};

GpuThread::GpuThread(const GpuSlice& slice) {
  fail_input("devices has '{}', but this program was built without CUDA", describe(slice));
}

GpuThread::~GpuThread() = default;

at::TensorOptions GpuThread::compute_options(const std::string&) const {
  return at::kFloat;
}

std::unique_ptr<Clock> GpuThread::make_clock(std::chrono::steady_clock::time_point start) const {
  return std::make_unique<ThreadClock>(start);
}

StreamEvent record_stream_event() {
  return nullptr;
}

void await_stream_event(const StreamEvent&) {}

bool block_until(const StreamEvent&, const std::function<bool()>&) {
  return true;
}

}  // namespace twobw::device

namespace twobw::models::ops::cuda {

using at::Tensor;
using TensorPair = std::pair<Tensor, Tensor>;

// Never called: no tensor is on a GPU.
#define TWOBW_STUB(Result, name, ...)                                                 \
  Result name(__VA_ARGS__) {                                                          \
    assertion_failed("built with CUDA", __FILE__, __LINE__, "an operation on a GPU"); \
  }
TWOBW_STUB(Tensor, linear, const Tensor&, const Tensor&, const Tensor&, const Tensor&)
TWOBW_STUB(TensorPair, linear_and_stream, const Tensor&, const Tensor&, const Tensor&)
TWOBW_STUB(Tensor, embed, const Tensor&, const Tensor&, const Tensor&)
TWOBW_STUB(Tensor, norm, const Tensor&, const Tensor&, const Tensor&, double)
TWOBW_STUB(TensorPair, norm_and_stream, const Tensor&, const Tensor&, const Tensor&, double)
TWOBW_STUB(Tensor, gelu, const Tensor&)
TWOBW_STUB(Tensor, erf_gelu, const Tensor&)
TWOBW_STUB(Tensor, swiglu, const Tensor&)
TWOBW_STUB(Tensor, rotated, const Tensor&, const Heads&, const Tensor&, int)
TWOBW_STUB(Tensor, attention, const Tensor&, const Heads&, const Tensor&, bool)
TWOBW_STUB(Tensor, drop, const Tensor&, const Tensor&, const DropoutMask&, bool)
TWOBW_STUB(TensorPair, attend, const Tensor&, int, bool, const Tensor&, const DropoutMask&)
TWOBW_STUB(Tensor, attend_backward, const Tensor&, int, const Tensor&, const Tensor&, const DropoutMask&)
TWOBW_STUB(Tensor, head_loss, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
           const Tensor&, bool, Tensor*)
#undef TWOBW_STUB

}  // namespace twobw::models::ops::cuda

namespace twobw::optim {

std::unique_ptr<StageOptimizer> make_gpu_optimizer(const OptimizerConfig&, const weights::Layout&,
                                                   const at::Tensor&, const at::Tensor&, bool) {
  fail_run(kNoCuda);
}

}  // namespace twobw::optim

namespace twobw::runtime {

std::unique_ptr<StageCompute> make_gpu_compute(StageState&) {
  fail_run(kNoCuda);
}

}  // namespace twobw::runtime

namespace twobw::transport {

std::unique_ptr<Link> peer_link(WaitHub&) {
  fail_run(kNoCuda);
}

MakeSum sums_on_gpus(bool, SumRanges) {
  fail_run(kNoCuda);
}

}  // namespace twobw::transport
