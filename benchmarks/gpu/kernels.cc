// Times every kernel of the project on this GPU, against a plain copy of as many bytes: all of them should
// be bound by memory. Sizes are those of GPT-2 (124M) with 64 sequences of 1024 tokens, in slices of the
// batch that a stage sees, and of Llama 3.2 1B and Llama 3 8B with 4 sequences of 4096.
#include <cuda_bf16.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <random>
#include <vector>

#include "engine/models/kernels_cuda.h"
#include "engine/optim/kernels_cuda.h"
#include "engine/transport/add_replicas_cuda.h"

namespace twobw {
namespace {

using Half = __nv_bfloat16;

void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  fmt::print(stderr, "CUDA: {}\n", cudaGetErrorString(error));
  std::exit(1);
}

// Zeros; freed with the process.
template <typename T>
T* device_memory(std::int64_t count) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, static_cast<std::size_t>(count) * sizeof(T)));
  check(cudaMemset(memory, 0, static_cast<std::size_t>(count) * sizeof(T)));
  return static_cast<T*>(memory);
}

// Ordinary numbers of about `size`. Zeros would send every root and quotient of an optimizer down a slow path
// that is for special values.
float* filled_memory(std::int64_t count, float size) {
  constexpr std::int64_t kPattern = 1 << 20;
  std::mt19937 engine(1);
  std::uniform_real_distribution<float> distribution(size / 2, 2 * size);
  std::vector<float> pattern(kPattern);
  for (float& value : pattern) value = distribution(engine);
  auto* memory = device_memory<float>(count);
  for (std::int64_t begin = 0; begin < count; begin += kPattern) {
    const auto bytes = static_cast<std::size_t>(std::min(kPattern, count - begin)) * sizeof(float);
    check(cudaMemcpy(memory + begin, pattern.data(), bytes, cudaMemcpyHostToDevice));
  }
  return memory;
}

// Seconds of one call: the median of several bunches.
double seconds(cudaStream_t stream, const std::function<void()>& call) {
  constexpr int kBunches = 9, kCalls = 20;
  cudaEvent_t begin{}, end{};
  check(cudaEventCreate(&begin));
  check(cudaEventCreate(&end));
  for (int i = 0; i < 3; ++i) call();
  std::vector<float> times;
  for (int bunch = 0; bunch < kBunches; ++bunch) {
    check(cudaEventRecord(begin, stream));
    for (int i = 0; i < kCalls; ++i) call();
    check(cudaEventRecord(end, stream));
    check(cudaEventSynchronize(end));
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin, end));
    times.push_back(milliseconds / kCalls);
  }
  check(cudaGetLastError());
  std::nth_element(times.begin(), times.begin() + kBunches / 2, times.end());
  return times[kBunches / 2] * 1e-3;
}

class Table {
 public:
  explicit Table(cudaStream_t stream) : stream_(stream) {
    constexpr std::int64_t kBytes = 1 << 30;
    char* from = device_memory<char>(kBytes);
    char* to = device_memory<char>(kBytes);
    copy_ = 2 * kBytes / seconds(stream, [&] {
              check(cudaMemcpyAsync(to, from, kBytes, cudaMemcpyDeviceToDevice, stream_));
            });
    fmt::print("copy: {:.0f} GB/s\n{:<34} {:>9} {:>9} {:>8}\n", copy_ * 1e-9, "", "us", "GB/s", "of copy");
    check(cudaFree(from));
    check(cudaFree(to));
  }
  // `bytes`: to be read and written at least.
  void row(const char* name, double bytes, const std::function<void()>& call) {
    const double time = seconds(stream_, call);
    fmt::print("{:<34} {:>9.1f} {:>9.0f} {:>7.0f}%\n", name, time * 1e6, bytes / time * 1e-9,
               100 * bytes / time / copy_);
  }

 private:
  cudaStream_t stream_;
  double copy_ = 0;
};

void time_optimizer(Table& table, cudaStream_t stream) {
  constexpr std::int64_t kCount = 124 << 20;
  std::vector<optim::cuda::Piece> pieces;
  optim::cuda::add_pieces(pieces, 0, kCount, 0.1f);
  auto* on_pieces = device_memory<optim::cuda::Piece>(std::ssize(pieces));
  check(cudaMemcpy(on_pieces, pieces.data(), pieces.size() * sizeof(pieces[0]), cudaMemcpyHostToDevice));
  auto* control = device_memory<optim::cuda::Control>(1);
  const auto count = static_cast<int>(pieces.size());
  const optim::AdamWRule adamw{.learning_rate = 1e-4f, .beta1 = 0.9f, .beta2 = 0.95f, .eps = 1e-8f};
  // Applying clears the gradient; the moments then fade with every call, by the last to about 1e-16.
  optim::StreamsOf<Half> streams{.target = filled_memory(kCount, 1e-2f),
                                 .gradient = filled_memory(kCount, 1e-2f),
                                 .moment1 = filled_memory(kCount, 1),
                                 .moment2 = filled_memory(kCount, 1),
                                 .compute = device_memory<Half>(kCount),
                                 .n = kCount};
  streams.source = streams.target;
  table.row("AdamW, 130M, bf16 weights", (4.0 * 8 + 2) * kCount,
            [&] { optim::cuda::apply(adamw, streams, on_pieces, count, control, stream); });
  auto* partial = device_memory<double>(count);
  constexpr int kNorms = 64;  // as if it were one parameter
  auto* norms = device_memory<double>(kNorms);
  std::array<int, kNorms + 1> bounds = {};
  for (int norm = 0; norm <= kNorms; ++norm) bounds[norm] = count / kNorms * norm;
  auto* first = device_memory<int>(kNorms + 1);
  check(cudaMemcpy(first, bounds.data(), sizeof bounds, cudaMemcpyHostToDevice));
  table.row("squared norm of the gradient", 4.0 * kCount, [&] {
    optim::cuda::squared_norms(streams.gradient, on_pieces, count, first, kNorms, partial, norms, stream);
  });
  transport::cuda::Buffers replicas;
  for (float* gradient : {streams.gradient, filled_memory(kCount, 1e-3f)}) replicas.add(gradient);
  table.row("sum of two replicas' gradients", 4.0 * 4 * kCount,
            [&] { transport::cuda::add_replicas(replicas, replicas, kCount, stream); });
}

void time_layers(Table& table, cudaStream_t stream, std::int64_t rows, int width) {
  const std::int64_t size = rows * width;
  auto* x = device_memory<Half>(4 * size);
  auto* y = device_memory<Half>(4 * size);
  auto* z = device_memory<Half>(4 * size);
  auto* w = device_memory<Half>(size);
  auto* mean = device_memory<float>(rows);
  auto* deviation = device_memory<float>(rows);
  auto* gradient = device_memory<float>(4 * width);
  auto* partial = device_memory<float>(std::max(models::cuda::norm_partials(rows, width, true), rows * 4));
  const models::cuda::Norm<Half> norm{.x = x,
                                      .weight = w,
                                      .bias = w,
                                      .out = z + size,
                                      .mean = mean,
                                      .deviation = deviation,
                                      .rows = rows,
                                      .width = width};
  const double stream_bytes = 2.0 * static_cast<double>(size);
  table.row("layer norm", 2 * stream_bytes, [&] { models::cuda::norm_forward(norm, stream); });
  const models::cuda::NormBackward<Half> backward{.grad_out = x,
                                                  .grad_stream = y,
                                                  .x = z,
                                                  .weight = w,
                                                  .mean = mean,
                                                  .deviation = deviation,
                                                  .grad_x = z + size,
                                                  .grad_weight = gradient,
                                                  .grad_bias = gradient + width,
                                                  .partial = partial,
                                                  .rows = rows,
                                                  .width = width};
  table.row("layer norm, backward", 4 * stream_bytes, [&] { models::cuda::norm_backward(backward, stream); });
  table.row("GELU", 8 * stream_bytes, [&] { models::cuda::gelu_forward(x, y, 4 * size, stream); });
  table.row("GELU, backward", 12 * stream_bytes,
            [&] { models::cuda::gelu_backward(x, y, z, 4 * size, stream); });
  table.row("bias gradient of 4 x width", 4 * stream_bytes,
            [&] { models::cuda::add_column_sums(x, gradient, partial, rows, 4 * width, stream); });
}

// Every token of the vocabulary comes about as often; made-up ones have no favourites.
void time_embedding(Table& table, cudaStream_t stream) {
  constexpr std::int64_t kBatch = 16, kLength = 1024, kVocabulary = 50304;
  constexpr int kWidth = 1280;
  constexpr std::int64_t kRows = kBatch * kLength;
  std::mt19937 engine(1);
  std::uniform_int_distribution<std::int64_t> any(0, kVocabulary - 1);
  std::vector<std::int64_t> tokens(kRows);
  for (std::int64_t& token : tokens) token = any(engine);
  auto* on_tokens = device_memory<std::int64_t>(kRows);
  check(cudaMemcpy(on_tokens, tokens.data(), tokens.size() * sizeof(tokens[0]), cudaMemcpyHostToDevice));
  auto* weight = device_memory<Half>((kVocabulary + kLength) * kWidth);
  auto* out = device_memory<Half>(kRows * 3 * kWidth);
  auto* gradient = device_memory<float>((kVocabulary + kLength) * kWidth);
  constexpr double kStream = 2.0 * kRows * kWidth;
  table.row("embedding", 2 * kStream, [&] {
    models::cuda::embed_forward(weight, weight + kVocabulary * kWidth, on_tokens, out, kBatch, kLength,
                                kWidth, stream);
  });
  models::cuda::EmbedBackward<Half> backward{.grad_out = out,
                                             .tokens = on_tokens,
                                             .grad_tokens = gradient,
                                             .grad_positions = gradient + kVocabulary * kWidth,
                                             .batch = kBatch,
                                             .length = kLength,
                                             .vocabulary = kVocabulary,
                                             .width = kWidth};
  // Reads the gradient for tokens and again for positions; reads and writes as many single-precision rows.
  table.row("embedding, backward", (2 + 4) * kStream,
            [&] { models::cuda::embed_backward(backward, stream); });
  backward.deterministic = true;
  table.row("embedding, backward, deterministic", (2 + 4) * kStream,
            [&] { models::cuda::embed_backward(backward, stream); });
  table.row("q, k and v side by side", 6 * kStream, [&] {
    models::cuda::pack_three(weight, weight + kRows * kWidth, weight + 2 * kRows * kWidth, out, kRows, kWidth,
                             kWidth, stream);
  });
}

void time_head(Table& table, cudaStream_t stream) {
  constexpr std::int64_t kRows = 16384;
  constexpr int kClasses = 50304;
  auto* logits = device_memory<Half>(kRows * kClasses);
  auto* targets = device_memory<std::int64_t>(kRows);
  auto* loss = device_memory<float>(kRows);
  auto* scale = device_memory<double>(1);
  table.row("cross-entropy, 16384 x 50304", 2.0 * 2 * kRows * kClasses, [&] {
    models::cuda::softmax_cross_entropy(logits, targets, loss, kRows, kClasses, scale, stream);
  });
}

struct Llama {
  int width, hidden, heads, kv_heads, head;
};

void time_llama_layers(Table& table, cudaStream_t stream, std::int64_t batch, std::int64_t length,
                       const Llama& llama) {
  const std::int64_t rows = batch * length, size = rows * llama.width, hidden_size = rows * llama.hidden;
  auto* x = device_memory<Half>(std::max(2 * hidden_size, 2 * size));
  auto* y = device_memory<Half>(std::max(2 * hidden_size, 2 * size));
  auto* z = device_memory<Half>(std::max(hidden_size, size));
  auto* w = device_memory<Half>(2 * llama.hidden);
  auto* scale = device_memory<float>(rows);
  auto* gradient = device_memory<float>(llama.width);
  auto* partial = device_memory<float>(models::cuda::norm_partials(rows, llama.width, false));
  const models::cuda::Norm<Half> norm{
      .x = x, .weight = w, .out = y + size, .deviation = scale, .rows = rows, .width = llama.width};
  const double stream_bytes = 2.0 * static_cast<double>(size);
  table.row("RMS norm", 2 * stream_bytes, [&] { models::cuda::norm_forward(norm, stream); });
  const models::cuda::NormBackward<Half> backward{.grad_out = x,
                                                  .grad_stream = x + size,
                                                  .x = y,
                                                  .weight = w,
                                                  .deviation = scale,
                                                  .grad_x = y + size,
                                                  .grad_weight = gradient,
                                                  .partial = partial,
                                                  .rows = rows,
                                                  .width = llama.width};
  table.row("RMS norm, backward", 4 * stream_bytes, [&] { models::cuda::norm_backward(backward, stream); });
  const double hidden_bytes = 2.0 * static_cast<double>(hidden_size);
  table.row("SwiGLU", 3 * hidden_bytes,
            [&] { models::cuda::swiglu_forward(x, z, rows, llama.hidden, stream); });
  table.row("SwiGLU, backward", 5 * hidden_bytes,
            [&] { models::cuda::swiglu_backward(x, z, y, rows, llama.hidden, stream); });
  const std::int64_t turned = rows * (llama.heads + 2 * llama.kv_heads) * llama.head;
  auto* qkv = device_memory<Half>(2 * turned);
  auto* angles = device_memory<float>(length * llama.head);  // any numbers take as long
  const models::cuda::Rotary<Half> rotary{.x = qkv,
                                          .out = qkv + turned,
                                          .table = angles,
                                          .batch = batch,
                                          .length = length,
                                          .heads = llama.heads,
                                          .kv_heads = llama.kv_heads,
                                          .head = llama.head};
  const double turned_bytes = 2 * 2.0 * static_cast<double>(turned);
  table.row("rotary embedding", turned_bytes, [&] { models::cuda::rotary_forward(rotary, stream); });
  table.row("rotary embedding, backward", turned_bytes,
            [&] { models::cuda::rotary_backward(rotary, stream); });
}

}  // namespace
}  // namespace twobw

int main() {
  using namespace twobw;
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, 0));
  fmt::print("{}, {} multiprocessors\n", properties.name, properties.multiProcessorCount);
  cudaStream_t stream{};
  check(cudaStreamCreate(&stream));
  Table table(stream);
  time_optimizer(table, stream);
  for (const auto& [rows, width] : {std::pair{64 << 10, 768}, {16 << 10, 1280}}) {
    fmt::print("{} tokens of width {}\n", rows, width);
    time_layers(table, stream, rows, width);
  }
  time_embedding(table, stream);
  time_head(table, stream);
  constexpr std::int64_t kBatch = 4, kLength = 4096;
  constexpr Llama kSmall{.width = 2048, .hidden = 8192, .heads = 32, .kv_heads = 8, .head = 64};
  constexpr Llama kLarge{.width = 4096, .hidden = 14336, .heads = 32, .kv_heads = 8, .head = 128};
  for (const Llama& llama : {kSmall, kLarge}) {
    fmt::print("{} tokens of width {}, Llama\n", kBatch * kLength, llama.width);
    time_llama_layers(table, stream, kBatch, kLength, llama);
  }
}
