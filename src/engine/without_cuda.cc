// Stubs for builds without CUDA, or with a LibTorch without it.
#include "core/base/error.h"
#include "engine/device/clock.h"
#include "engine/device/device.h"
#include "engine/device/gpu_thread.h"
#include "engine/models/ops_cuda.h"
#include "engine/optim/serial.h"
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

// Never called: no tensor is on a GPU.
namespace {

using at::Tensor;

[[noreturn]] void not_built() {
  assertion_failed("built with CUDA", __FILE__, __LINE__, "an operation on a GPU");
}

}  // namespace

Tensor linear(const Tensor&, const Tensor&, const Tensor&, const Tensor&) {
  not_built();
}
std::pair<Tensor, Tensor> linear_and_stream(const Tensor&, const Tensor&, const Tensor&) {
  not_built();
}
Tensor embed(const Tensor&, const Tensor&, const Tensor&) {
  not_built();
}
Tensor layer_norm(const Tensor&, const Tensor&, const Tensor&, double) {
  not_built();
}
std::pair<Tensor, Tensor> norm_and_stream(const Tensor&, const Tensor&, const Tensor&) {
  not_built();
}
Tensor rms_norm(const Tensor&, const Tensor&, double) {
  not_built();
}
std::pair<Tensor, Tensor> rms_norm_and_stream(const Tensor&, const Tensor&, double) {
  not_built();
}
Tensor gelu(const Tensor&) {
  not_built();
}
Tensor erf_gelu(const Tensor&) {
  not_built();
}
Tensor swiglu(const Tensor&) {
  not_built();
}
Tensor rotated(const Tensor&, const Heads&, const Tensor&, int) {
  not_built();
}
Tensor causal_attention(const Tensor&, const Heads&, const Tensor&) {
  not_built();
}
Tensor full_attention(const Tensor&, const Heads&, const Tensor&) {
  not_built();
}
Tensor drop(const Tensor&, const Tensor&, const DropoutMask&, bool) {
  not_built();
}
std::pair<Tensor, Tensor> attend(const Tensor&, int, bool, const Tensor&, const DropoutMask&) {
  not_built();
}
Tensor attend_backward(const Tensor&, int, const Tensor&, const Tensor&, const DropoutMask&) {
  not_built();
}
Tensor head_loss(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                 bool, Tensor*) {
  not_built();
}

}  // namespace twobw::models::ops::cuda

namespace twobw::optim {

std::unique_ptr<SerialOptimizer> make_serial_gpu_optimizer(const Config&, const weights::Layout&,
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
