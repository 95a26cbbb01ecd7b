// How fast a model goes on with a text on this GPU, against the bandwidth of its memory: every token reads
// all weights once. The model is a Llama of 1B parameters, in bf16, with made-up weights:
//
//   gpu_generate [rows] [tokens] [prompt tokens]      defaults: 1 256 128
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "base/exit.h"
#include "device/cpu.h"
#include "device/device.h"
#include "inference/decoder.h"

namespace twobw {
namespace {

using at::Tensor;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

ModelConfig one_billion() {
  ModelConfig config{.family = "llama",
                     .layers = 16,
                     .width = 2048,
                     .heads = 32,
                     .vocab = 128256,
                     .context = 2048,
                     .tied = true};
  config.kv_heads = 8;
  config.hidden = 8192;
  config.rope_theta = 500000;
  return config;
}

std::vector<Tensor> made_up_parameters(const models::Model& model, const at::TensorOptions& compute) {
  std::map<std::string, Tensor> known;
  std::vector<Tensor> parameters;
  for (const architecture::Layer& layer : model.layers) {
    for (const architecture::Parameter& spec : layer.parameters) {
      Tensor& tensor = known[spec.group_name()];
      if (!tensor.defined()) tensor = at::empty(spec.shape, compute).normal_(spec.init_mean, spec.init_std);
      parameters.push_back(tensor);
    }
  }
  return parameters;
}

// Bytes that a token reads of the weights: all of them but the rows of the embedding that its layer leaves
// out.
double weight_bytes(const models::Model& model, std::size_t element) {
  double count = 0;
  for (std::size_t layer = 1; layer < model.layers.size(); ++layer)
    count += architecture::parameter_count(model.layers[layer]);
  return count * static_cast<double>(element);
}

// Bytes a second, read and written, of a copy from the GPU's memory to itself.
double copy_bandwidth() {
  constexpr std::int64_t kBytes = std::int64_t{2} << 30;
  constexpr int kCopies = 20;
  const auto bytes = at::TensorOptions(at::kCUDA).dtype(at::kByte);
  const Tensor from = at::zeros({kBytes}, bytes), to = at::empty({kBytes}, bytes);
  to.copy_(from);
  at::cuda::getCurrentCUDAStream().synchronize();
  const auto begin = Clock::now();
  for (int i = 0; i < kCopies; ++i) to.copy_(from, /*non_blocking=*/true);
  at::cuda::getCurrentCUDAStream().synchronize();
  return 2.0 * kBytes * kCopies / seconds_since(begin);
}

void run(std::int64_t rows, std::int64_t tokens, std::int64_t prompt) {
  at::NoGradGuard no_grad;
  const ModelConfig config = one_billion();
  const models::Model model = models::build(config);
  const device::DeviceBinding binding("generate", {.gpu = GpuSlice{}});
  inference::Stage stage{.last_layer = model.size(), .compute = binding.compute("bf16")};
  stage.parameters = made_up_parameters(model, stage.compute);
  inference::DecodingStage part(stage, model, rows, prompt + tokens + 8);
  inference::Decoder decoder(part);
  std::vector<std::int64_t> last, seen;
  const auto before = Clock::now();
  for (std::int64_t row = 0; row < rows; ++row) {
    std::vector<std::int64_t> ids;
    for (std::int64_t i = 0; i < prompt; ++i) ids.push_back((row * 7919 + i * 104729) % config.vocab);
    last.push_back(decoder.begin(row, ids).argmax().item<std::int64_t>());
    seen.push_back(prompt);
  }
  const double prompts = seconds_since(before);
  inference::StepGraphs& graphs = *decoder.likeliest();
  graphs.begin_likeliest(last, seen);
  for (int i = 0; i < 4; ++i) graphs.next_likeliest();  // captured, and warm
  const auto begin = Clock::now();
  for (std::int64_t i = 0; i < tokens; ++i) graphs.next_likeliest();
  const double a_step = seconds_since(begin) / static_cast<double>(tokens);

  const double weights = weight_bytes(model, 2), copied = copy_bandwidth();
  constexpr double kH200 = 4.8e12;
  fmt::print("{}, {} rows, prompts of {} tokens, bf16\n", at::cuda::getCurrentDeviceProperties()->name, rows,
             prompt);
  fmt::print("  tokens/s              {:.1f} ({:.1f} of each row)\n", static_cast<double>(rows) / a_step,
             1 / a_step);
  fmt::print("  a step                {:.1f} us\n", 1e6 * a_step);
  fmt::print("  prompts               {:.1f} ms, the first use of every kernel included\n", 1e3 * prompts);
  fmt::print("  weights read a token  {:.3f} GB, {:.2f} TB/s\n", weights / 1e9, weights / a_step / 1e12);
  fmt::print("  of a copy's {:.2f} TB/s   {:.1f}%\n", copied / 1e12, 100 * weights / a_step / copied);
  fmt::print("  of 4.8 TB/s           {:.1f}%\n", 100 * weights / a_step / kH200);
}

}  // namespace
}  // namespace twobw

int main(int argc, char** argv) {
  const auto argument = [&](int i, std::int64_t otherwise) {
    return i < argc ? std::strtoll(argv[i], nullptr, 10) : otherwise;
  };
  twobw::device::initialize();
  twobw::run(argument(1, 1), argument(2, 256), argument(3, 128));
  twobw::leave(0);
}
