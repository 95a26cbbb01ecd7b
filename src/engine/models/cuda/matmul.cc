#include "engine/models/cuda/matmul.h"

#include <cublasLt.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "core/base/error.h"
#include "engine/device/gpu.h"

namespace twobw::models::cuda {
namespace {

void check(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS)
    fail_run("cublasLt: {} failed: {}", what, cublasLtGetStatusString(status));
}

// One a thread and GPU; made at the first product, and kept.
cublasLtHandle_t handle_on(int gpu) {
  thread_local std::map<int, cublasLtHandle_t> handles;
  cublasLtHandle_t& handle = handles[gpu];
  if (handle == nullptr) check(cublasLtCreate(&handle), "making a handle");
  return handle;
}

cudaDataType_t data_type(Type type) {
  if (type == Type::kHalf) return CUDA_R_16F;
  return type == Type::kFloat ? CUDA_R_32F : CUDA_R_16BF;
}

// Owner of a cublasLt object.
template <typename T, cublasStatus_t (*Destroy)(T)>
class Owned {
 public:
  Owned() = default;
  ~Owned() {
    if (object_ != nullptr) Destroy(object_);
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  T* to() { return &object_; }
  T get() const { return object_; }

 private:
  T object_ = nullptr;
};
using Description = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Layout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Preference = Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

template <typename V>
void set(const Description& of, cublasLtMatmulDescAttributes_t attribute, const V& value) {
  check(cublasLtMatmulDescSetAttribute(of.get(), attribute, &value, sizeof(value)), "describing a product");
}
template <typename V>
void set(const Preference& of, cublasLtMatmulPreferenceAttributes_t attribute, const V& value) {
  check(cublasLtMatmulPreferenceSetAttribute(of.get(), attribute, &value, sizeof(value)),
        "describing a preference");
}

// cublasLt is column-major: a row-major [rows, columns] matrix is its transpose there, without a copy.
void make(Layout& layout, Type type, std::int64_t rows, std::int64_t columns, std::int64_t stride) {
  check(cublasLtMatrixLayoutCreate(layout.to(), data_type(type), static_cast<std::uint64_t>(columns),
                                   static_cast<std::uint64_t>(rows), stride),
        "describing a matrix");
}
void make(Layout& layout, Type type, const Operand& operand, std::int64_t rows, std::int64_t columns) {
  if (operand.transposed)
    make(layout, type, columns, rows, operand.stride);
  else
    make(layout, type, rows, columns, operand.stride);
}

void set_batch(const Layout& layout, std::int32_t count, std::int64_t apart) {
  check(cublasLtMatrixLayoutSetAttribute(layout.get(), CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                         sizeof(count)),
        "describing a batch");
  check(cublasLtMatrixLayoutSetAttribute(layout.get(), CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &apart,
                                         sizeof(apart)),
        "describing a batch");
}

// Common alignment of the matrices of a batch, `apart` bytes apart.
std::uint32_t alignment_of(const void* pointer, std::int64_t apart = 0) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer) | static_cast<std::uintptr_t>(apart);
  return static_cast<std::uint32_t>(std::min<std::uintptr_t>(address & (~address + 1), 256));
}

// Everything that the choice of an algorithm may depend on.
struct Key {
  Product shape;  // without its pointers
  bool bias, added;
  std::uint32_t a_alignment, b_alignment, out_alignment, added_alignment;
  int multiprocessors;
  std::size_t workspace_bytes;
  auto operator<=>(const Key&) const = default;
};

Key key_of(const Product& p, const void* added, const device::GpuContext& context) {
  const std::int64_t in_bytes = p.in == Type::kFloat ? 4 : 2, out_bytes = p.type == Type::kFloat ? 4 : 2;
  Key key{.shape = p,
          .bias = p.bias != nullptr,
          .added = p.added != nullptr,
          .a_alignment = alignment_of(p.a.data, in_bytes * p.a.apart),
          .b_alignment = alignment_of(p.b.data, in_bytes * p.b.apart),
          .out_alignment = alignment_of(p.out, out_bytes * p.out_apart),
          .added_alignment = alignment_of(added, out_bytes * p.out_apart),
          .multiprocessors = context.product_multiprocessors,
          .workspace_bytes = context.workspace_bytes};
  key.shape.a.data = key.shape.b.data = key.shape.added = key.shape.bias = key.shape.out = nullptr;
  return key;
}

std::mutex mutex;
std::map<Key, cublasLtMatmulAlgo_t> chosen;

}  // namespace

void multiply(const Product& p, cudaStream_t stream) {
  TWOBW_ASSERT(p.m > 0 && p.n > 0 && p.k > 0, "a product [{}, {}, {}]", p.m, p.k, p.n);
  TWOBW_ASSERT(p.in == p.type || p.type == Type::kFloat, "a product into another type of 16 bits");
  TWOBW_ASSERT(p.batch == 1 || (p.added == nullptr && p.bias == nullptr), "a batch with something added");
  const device::GpuContext& context = device::gpu_context(stream);
  cublasLtHandle_t handle = handle_on(context.gpu);
  // out^T = b^T a^T is the same numbers counted by columns: b comes first.
  const void* added = p.added != nullptr ? p.added : p.out;
  const std::int64_t added_stride = p.added != nullptr ? p.added_stride : p.out_stride;
  const cublasOperation_t first = p.b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t second = p.a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;

  Description description;
  check(cublasLtMatmulDescCreate(description.to(), CUBLAS_COMPUTE_32F, CUDA_R_32F), "describing a product");
  set(description, CUBLASLT_MATMUL_DESC_TRANSA, first);
  set(description, CUBLASLT_MATMUL_DESC_TRANSB, second);
  set(description, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET,
      static_cast<std::int32_t>(context.product_multiprocessors));
  if (p.bias != nullptr) {
    set(description, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
    set(description, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<std::int32_t>(data_type(p.type)));
  }
  Layout a, b, c, d;
  make(a, p.in, p.a, p.m, p.k);
  make(b, p.in, p.b, p.k, p.n);
  make(c, p.type, p.m, p.n, added_stride);
  make(d, p.type, p.m, p.n, p.out_stride);
  if (p.batch > 1) {
    set_batch(a, p.batch, p.a.apart);
    set_batch(b, p.batch, p.b.apart);
    set_batch(c, p.batch, p.out_apart);
    set_batch(d, p.batch, p.out_apart);
  }
  const Key key = key_of(p, added, context);
  cublasLtMatmulAlgo_t algorithm;
  {
    std::lock_guard lock(mutex);
    auto found = chosen.find(key);
    if (found == chosen.end()) {
      Preference preference;
      check(cublasLtMatmulPreferenceCreate(preference.to()), "describing a preference");
      set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
          static_cast<std::uint64_t>(key.workspace_bytes));
      set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.b_alignment);
      set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.a_alignment);
      set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.added_alignment);
      set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.out_alignment);
      cublasLtMatmulHeuristicResult_t best{};
      int count = 0;
      check(cublasLtMatmulAlgoGetHeuristic(handle, description.get(), b.get(), a.get(), c.get(), d.get(),
                                           preference.get(), 1, &best, &count),
            "choosing an algorithm");
      if (count == 0 || best.state != CUBLAS_STATUS_SUCCESS)
        fail_run("cublasLt: no algorithm for a product [{}, {}] x [{}, {}]", p.m, p.k, p.k, p.n);
      found = chosen.emplace(key, best.algo).first;
    }
    algorithm = found->second;
  }
  const float alpha = 1.0f, beta = p.added != nullptr ? p.beta : 0.0f;
  check(
      cublasLtMatmul(handle, description.get(), &alpha, p.b.data, b.get(), p.a.data, a.get(), &beta, added,
                     c.get(), p.out, d.get(), &algorithm, context.workspace, context.workspace_bytes, stream),
      "a product");
}

}  // namespace twobw::models::cuda
