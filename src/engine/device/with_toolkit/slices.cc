#include "engine/device/slices.h"

#include <cuda.h>

#include "core/base/error.h"

namespace twobw::device {
namespace {

// The driver's functions are looked up when they are needed, so that a machine without a driver can build.
template <typename Function>
Function* driver(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  constexpr unsigned version = 12050;  // the first with streams on green contexts
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion(name, &function, version, cudaEnableDefault, &found);
  if (error != cudaSuccess || found != cudaDriverEntryPointSuccess || function == nullptr)
    fail_run("the CUDA driver has no {}; slices of a GPU need one of CUDA 12.5 or later", name);
  return reinterpret_cast<Function*>(function);
}

void check(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  const char* text = nullptr;
  driver<decltype(cuGetErrorString)>("cuGetErrorString")(result, &text);
  fail_run("CUDA: {} failed: {}", what, text != nullptr ? text : "unknown error");
}

#define TWOBW_DRIVER(function, ...) check(driver<decltype(function)>(#function)(__VA_ARGS__), #function)

}  // namespace

Slices::Slices(int gpu, int count) {
  if (cudaSetDevice(gpu) != cudaSuccess || cudaFree(nullptr) != cudaSuccess)
    fail_run("CUDA cannot use cuda:{}", gpu);
  CUdevice device = 0;
  TWOBW_DRIVER(cuDeviceGet, &device, gpu);
  CUdevResource all{};
  TWOBW_DRIVER(cuDeviceGetDevResource, device, &all, CU_DEV_RESOURCE_TYPE_SM);
  constexpr unsigned step = kSliceStep;
  const unsigned each = all.sm.smCount / static_cast<unsigned>(count) / step * step;
  if (each == 0) {
    fail_input("cuda:{}/{} asks for too many slices: the GPU has {} multiprocessors, so at most {}", gpu,
               count, all.sm.smCount, all.sm.smCount / step);
  }
  std::vector<CUdevResource> parts(static_cast<std::size_t>(count));
  auto made = static_cast<unsigned>(count);
  CUdevResource rest{};
  TWOBW_DRIVER(cuDevSmResourceSplitByCount, parts.data(), &made, &all, &rest, 0, each);
  if (made < static_cast<unsigned>(count))
    fail_input("cuda:{}/{} asks for too many slices: the driver makes {}", gpu, count, made);
  for (CUdevResource& part : parts) {
    CUdevResourceDesc description{};
    CUgreenCtx context{};
    TWOBW_DRIVER(cuDevResourceGenerateDesc, &description, &part, 1);
    TWOBW_DRIVER(cuGreenCtxCreate, &context, description, device, CU_GREEN_CTX_DEFAULT_STREAM);
    contexts_.push_back(context);
    multiprocessors_.push_back(static_cast<int>(part.sm.smCount));
  }
}

Slices::~Slices() {
  for (cudaStream_t stream : streams_) cudaStreamDestroy(stream);
  for (void* context : contexts_)
    driver<decltype(cuGreenCtxDestroy)>("cuGreenCtxDestroy")(static_cast<CUgreenCtx>(context));
}

cudaStream_t Slices::make_stream(int slice) {
  CUstream stream{};
  TWOBW_DRIVER(cuGreenCtxStreamCreate, &stream, static_cast<CUgreenCtx>(contexts_[slice]),
               CU_STREAM_NON_BLOCKING, 0);
  streams_.push_back(stream);
  return stream;
}

}  // namespace twobw::device
