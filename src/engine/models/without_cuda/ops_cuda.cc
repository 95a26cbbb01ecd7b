// In place of ops_cuda/: without CUDA no tensor is on a GPU, so none of these is called.
#include "engine/models/ops_cuda.h"
#include "core/base/error.h"

namespace twobw::models::ops::cuda {
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
