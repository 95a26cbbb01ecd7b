// How fast a model goes on with a text on this GPU, against the bandwidth of its memory: every token reads
// all weights once. The model is a Llama of 1B parameters, in bf16, with made-up weights:
//
//   gpu_generate [rows] [tokens] [prompt tokens]      defaults: 1 256 128
//
// And where a step's time goes: in one kernel (one_kernel.h); with so many steps in a graph, kernels that
// begin early and that do not, and what the host does meanwhile; then each kind of its kernels by itself, one
// after the other over the weights of all layers, which do not fit the cache, and those of layers in their
// order.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGraph.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/exit.h"
#include "device/cpu.h"
#include "device/device.h"
#include "device/gpu.h"
#include "inference/decoder.h"
#include "models/cuda/step_program.h"
#include "models/decode_kernels_cuda.h"
#include "models/ops.h"
#include "models/ops_cuda.h"
#include "models/rotary.h"
#include "one_kernel.h"

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

// Seconds that what is queued takes, as a graph.
double time_of(const std::function<void()>& queue) {
  constexpr int kTimes = 20;
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  queue();
  device::check_cuda(cudaStreamSynchronize(stream), "the first time");
  at::cuda::CUDAGraph graph;
  graph.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
  queue();
  graph.capture_end();
  for (int i = 0; i < 3; ++i) graph.replay();
  cudaEvent_t begin = nullptr, end = nullptr;
  device::check_cuda(cudaEventCreate(&begin), "an event");
  device::check_cuda(cudaEventCreate(&end), "an event");
  device::check_cuda(cudaEventRecord(begin, stream), "an event");
  for (int i = 0; i < kTimes; ++i) graph.replay();
  device::check_cuda(cudaEventRecord(end, stream), "an event");
  device::check_cuda(cudaEventSynchronize(end), "graphs");
  float milliseconds = 0;
  device::check_cuda(cudaEventElapsedTime(&milliseconds, begin, end), "events");
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  return 1e-3 * milliseconds / kTimes;
}

// The kinds of kernels in a step.
class Kinds {
 public:
  Kinds(const ModelConfig& config, const models::Model& model, const inference::Stage& stage,
        std::int64_t rows, std::int64_t places, std::int64_t seen)
      : config_(config),
        model_(model),
        heads_{.queries = config.heads, .keys = config.kv_heads, .size = config.width / config.heads},
        angles_(models::RotaryTable::of(config)->angles(places, stage.compute.device())) {
    std::span<const Tensor> rest = all_parameters_ = stage.parameters;
    for (const architecture::Layer& layer : model.layers) {
      parameters_.push_back(rest.first(layer.parameters.size()));
      rest = rest.subspan(layer.parameters.size());
    }
    const auto of = [&](std::int64_t width) { return at::empty({rows, 1, width}, stage.compute).normal_(); };
    stream_ = of(config.width);
    packed_ = of(std::int64_t{heads_.all()} * heads_.size);
    inner_ = of(config.hidden);
    logits_ = of(config.vocab);
    const auto numbers = stage.compute.dtype(at::kLong);
    step_.tokens = at::zeros({rows, 1}, numbers);
    step_.seen = at::full({rows}, seen, numbers);
    room_ = at::zeros({rows, 2}, numbers);
    for (int i = 0; i < config.layers; ++i) {
      models::KeyValues& cache = caches_.emplace_back();
      for (Tensor* tensor : {&cache.keys, &cache.values})
        *tensor = at::empty({rows, heads_.keys, places, heads_.size}, stage.compute).normal_();
      cache.arrived = at::zeros({rows, heads_.queries}, stage.compute.dtype(at::kInt));
    }
    std::size_t next = 0;
    for (const auto& step : model.steps)
      of_layers_.push_back(step.keeps ? caches_[next++] : models::KeyValues());
  }

  // Of a step that takes so long, on a GPU that copies so many bytes a second.
  void print(double a_step, double copied) const {
    fmt::print("  {:<14} {:>5} {:>9} {:>9} {:>9}\n", "of a step", "times", "us each", "us", "of a copy");
    double sum = 0;
    const auto row = [&](const char* name, int times, double bytes, const std::function<void()>& queue) {
      const double all = time_of(queue);
      sum += all;
      const std::string share = bytes > 0 ? fmt::format("{:.1f}%", 100 * bytes / all / copied) : "";
      fmt::print("  {:<14} {:>5} {:>9.2f} {:>9.1f} {:>9}\n", name, times, 1e6 * all / times, 1e6 * all,
                 share);
    };
    row("embedding", 1, 0, [&] { stepped("embedding", {}); });
    const auto products = [&](const char* name, const char* kind, std::size_t weight,
                              const std::function<void()>& queue) {
      int times = 0;
      double bytes = 0;
      each(kind, [&](int, std::span<const Tensor> p) {
        ++times;
        bytes += static_cast<double>(p[weight].nbytes());
      });
      row(name, times, bytes, queue);
    };
    products("qkv", "attention_in", 1, [&] { stepped("attention_in", {stream_}); });
    row("attention", config_.layers, 0, [&] {
      for (const models::KeyValues& cache : caches_) {
        models::Step step = step_;
        step.cache = cache;
        models::ops::cached_attention(packed_, heads_, step, angles_);
      }
    });
    const auto added = [&](const char* kind, const Tensor& x) {
      each(kind, [&](int, std::span<const Tensor> p) { models::ops::linear_add(x, p[0], {}, stream_); });
    };
    products("output", "attention_out", 0, [&] { added("attention_out", stream_); });
    products("gate and up", "mlp_up", 1, [&] { stepped("mlp_up", {stream_}); });
    products("down", "mlp_down", 0, [&] { added("mlp_down", inner_); });
    products("head", "head", 1, [&] { stepped("head", {stream_}); });
    const Tensor seen = step_.seen.clone();
    row("likeliest", 1, 0,
        [&] { models::ops::cuda::take_likeliest(logits_, step_.tokens, seen, angles_.size(0), room_); });
    fmt::print("  {:<14} {:>5} {:>9} {:>9.1f}\n", "the rest", "", "", 1e6 * (a_step - sum));
    // In the order of a step, where kernels of different kinds meet.
    row("qkv to output", config_.layers, 0, [&] { in_order({"attention_in", "attention_out"}); });
    row("up and down", config_.layers, 0, [&] { in_order({"mlp_up", "mlp_down"}); });
    row("all of these", config_.layers, 0, [&] {
      in_order({"attention_in", "attention_out", "mlp_up", "mlp_down"});
    });
    row("with the ends", 1, 0, [&] {
      models::ops::cuda::take_likeliest(whole_step(step_, {}).front(), step_.tokens, seen, angles_.size(0),
                                        room_);
    });
  }

  // All layers of a step.
  models::Tensors whole_step(const models::Step& step, const models::Tensors& inputs) const {
    return models::run_steps(model_, 0, model_.size(), all_parameters_, inputs, step, of_layers_);
  }

 private:
  void each(const std::string& kind, const std::function<void(int, std::span<const Tensor>)>& call) const {
    for (int layer = 0; layer < model_.size(); ++layer) {
      if (model_.layers[layer].kind == kind) call(layer, parameters_[layer]);
    }
  }
  // The layers of these kinds, as a step has them, all from the same stream.
  void in_order(const std::vector<std::string>& kinds) const {
    std::size_t caches = 0;
    for (int layer = 0; layer < model_.size(); ++layer) {
      const std::string& kind = model_.layers[layer].kind;
      if (std::ranges::find(kinds, kind) == kinds.end()) continue;
      const std::span<const Tensor> p = parameters_[layer];
      if (kind == "attention_out") {
        models::Step step = step_;
        step.cache = caches_[caches++];
        const Tensor mixed = models::ops::cached_attention(packed_, heads_, step, angles_);
        models::ops::linear_add(mixed, p[0], {}, stream_);
      } else if (kind == "mlp_down") {
        models::ops::linear_add(inner_, p[0], {}, stream_);
      } else {
        model_.steps[layer].forward(p, {stream_}, step_);
      }
    }
  }
  void stepped(const std::string& kind, const models::Tensors& inputs) const {
    each(kind, [&](int layer, std::span<const Tensor> p) { model_.steps[layer].forward(p, inputs, step_); });
  }

  const ModelConfig& config_;
  const models::Model& model_;
  models::ops::Heads heads_;
  Tensor angles_, stream_, packed_, inner_, logits_, room_;
  std::span<const Tensor> all_parameters_;
  std::vector<std::span<const Tensor>> parameters_;
  models::Step step_;
  std::vector<models::KeyValues> caches_;     // of the layers that keep some
  std::vector<models::KeyValues> of_layers_;  // of all
};

// So many steps in a graph, by the host's clock; the host's part of it.
void print_graphs(const Kinds& kinds, const at::TensorOptions& compute, std::int64_t rows,
                  std::int64_t tokens, std::int64_t prompt, std::int64_t places) {
  fmt::print("  {:<14} {:>6} {:>9} {:>10} {:>10} {:>10} {:>8} {:>7} {:>7}\n", "steps a graph", "early",
             "us a step", "us behind", "us launch", "us wait", "kernels", "others", "early");
  for (const std::string early : {"one", "yes", "no"}) {  // one: all of it is one kernel
    for (const int steps : {1, 2, 4, 8}) {
      models::cuda::begins_early() = early != "no";
      models::cuda::steps_in_one_kernel() = early == "one";
      const auto graphs = inference::make_step_graphs(
          [&](const models::Step& step, const models::Tensors& inputs) {
            return kinds.whole_step(step, inputs);
          },
          compute, places, steps);
      const std::vector<std::int64_t> first(static_cast<std::size_t>(rows), 1),
          seen(static_cast<std::size_t>(rows), prompt);
      graphs->begin_likeliest(first, seen);
      models::cuda::begins_early() = models::cuda::steps_in_one_kernel() = true;
      for (int i = 0; i < 8; ++i) graphs->next_likeliest();
      const auto before = graphs->host_times();
      const auto begin = Clock::now();
      for (std::int64_t i = 0; i < tokens; ++i) graphs->next_likeliest();
      const double a_step = seconds_since(begin) / static_cast<double>(tokens);
      const auto times = graphs->host_times();
      // Steps that are queued and that nobody waits for one by one.
      const auto rest = Clock::now();
      at::cuda::getCurrentCUDAStream().synchronize();
      const double behind = seconds_since(rest);
      const auto nodes = graphs->likeliest_nodes();
      fmt::print(
          "  {:<14} {:>6} {:>9.1f} {:>10.1f} {:>10.2f} {:>10.2f} {:>8} {:>7} {:>7}\n", steps, early,
          1e6 * a_step, 1e6 * behind,
          1e6 * (times.launch_s - before.launch_s) / static_cast<double>(times.launches - before.launches),
          1e6 * (times.wait_s - before.wait_s) / static_cast<double>(times.waits - before.waits),
          nodes.kernels, nodes.others, nodes.early);
    }
  }
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
  const std::int64_t places = prompt + tokens + 8;
  const Kinds kinds(config, model, stage, rows, places, prompt + tokens / 2);
  print_one_kernel(
      [&](const models::Step& step, const models::Tensors& inputs) { return kinds.whole_step(step, inputs); },
      stage.compute, rows, prompt, places, weights);
  print_graphs(kinds, stage.compute, rows, tokens, prompt, places);
  kinds.print(a_step, copied);
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
