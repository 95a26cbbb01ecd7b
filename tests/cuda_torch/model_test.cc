// A whole model on a GPU: like the CPU's in float, near it in bfloat16, and the same out of a captured graph.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "engine/models/model.h"
#include "planning/architecture/families.h"
#include "worker_stream.h"

namespace twobw::models {
namespace {

using at::Tensor;

constexpr int kVocabulary = 333, kBatch = 3, kLength = 64;

ModelConfig gpt() {
  return {.layers = 2, .width = 128, .heads = 2, .vocab = kVocabulary, .context = 80, .tied = false};
}

ModelConfig dropping(ModelConfig config) {
  config.dropout = 0.1;
  return config;
}

ModelConfig llama() {
  ModelConfig config = gpt();
  config.family = "llama";
  config.heads = 4;
  config.kv_heads = 2;
  config.rope_scaling = "dynamic";
  config.rope_original_context = 40;
  return config;
}

ModelConfig qwen3() {
  ModelConfig config = llama();
  config.head_size = 64;
  config.hidden = 200;
  config.qkv_bias = config.qk_norm = true;
  return config;
}

ModelConfig bert(ModelHead head) {
  ModelConfig config = gpt();
  config.family = "bert";
  config.head = head;
  config.num_labels = head == ModelHead::Classification ? 3 : 2;
  return config;
}

ModelConfig bert_without_padding() {
  ModelConfig config = bert(ModelHead::MaskedLm);
  config.padding = false;
  return config;
}

ModelConfig classifying_llama() {
  ModelConfig config = llama();
  config.head = ModelHead::Classification;
  config.rope_scaling = "linear";
  return config;
}

ModelConfig resetting(ModelConfig config) {
  config.reset_documents = true;
  if (config.family == "llama") config.rope_scaling = "llama3";
  return config;
}

// One document; two; one for every seven tokens.
Tensor made_up_positions() {
  const Tensor places = at::arange(kLength, at::kLong);
  return at::stack({places, at::where(places.lt(40), places, places - 40), places.remainder(7)});
}

Tensor made_up_tokens(std::uint64_t seed) {
  auto generator = at::detail::createCPUGenerator(seed);
  return at::empty({kBatch, kLength}, at::kLong).random_(0, kVocabulary, generator);
}

// A model with made-up weights on a device.
class Sample {
 public:
  Sample(const ModelConfig& config, at::Device device, at::ScalarType type) : model_(build(config)) {
    auto generator = at::detail::createCPUGenerator(7);
    for (const architecture::Layer& layer : model_.layers) {
      for (const architecture::Parameter& spec : layer.parameters) {
        const Tensor numbers = at::empty(spec.shape, at::kFloat).normal_(spec.init_mean, 0.05, generator);
        Tensor parameter = numbers.to(device, type).detach().clone().set_requires_grad(true);
        parameter.mutable_grad() = at::zeros(spec.shape, at::TensorOptions(device).dtype(at::kFloat));
        parameters_.push_back(parameter);
      }
    }
    pass_ = {.training = true};
    pass_.batch[Field::Tokens] = made_up_tokens(1).to(device);
    pass_.batch[Field::Targets] = made_up_tokens(2).to(device);
    pass_.batch[Field::TokenTypes] = made_up_tokens(3).remainder(2).to(device);
    if (config.padding) pass_.batch[Field::Lengths] = at::tensor({kLength, 40, 7}, at::kLong).to(device);
    if (config.reset_documents) pass_.batch[Field::Positions] = made_up_positions().to(device);
    pass_.batch[Field::Labels] = at::tensor({1, 0, 1}, at::kLong).to(device);
    pass_.batch[Field::Values] = at::tensor({0.5, -1.0, 2.0}, at::kDouble).to(device);
    const bool of_sequences = architecture::is_sequence_head(config.head);
    const double count = of_sequences ? kBatch : kBatch * kLength;
    pass_.batch[Field::LossScale] = at::full({1}, 1 / count, at::TensorOptions(device).dtype(at::kDouble));
    pass_ = pass_.to(device);
  }

  // From now on, also in graphs that were captured before.
  void set_microbatch(std::int64_t microbatch) {
    pass_.microbatch = microbatch;
    pass_.key_on_gpu.fill_(static_cast<std::int64_t>(pass_.dropout_key()));
  }

  // The loss; gradients are added.
  Tensor step() const {
    const Tensors values = run_layers(model_, 0, model_.size(), parameters_, {}, pass_);
    torch::autograd::backward({values[0]}, {});
    return values[0].detach();
  }

  // All of them in one row.
  Tensor gradients() const {
    std::vector<Tensor> rows;
    for (const Tensor& parameter : parameters_) rows.push_back(parameter.grad().reshape(-1).cpu());
    return at::cat(rows).to(at::kDouble);
  }

  void clear_gradients() const {
    for (const Tensor& parameter : parameters_) parameter.grad().zero_();
  }

 private:
  Model model_;
  std::vector<Tensor> parameters_;
  MicrobatchContext pass_;
};

class CapturedOnGpu : public WorkerStreamTest {
 protected:
  // Not the default stream, which cannot be captured.
  void SetUp() override {
    if (at::hasCUDA() && at::cuda::device_count() > 0) guard_.reset_stream(c10::cuda::getStreamFromPool());
    WorkerStreamTest::SetUp();
  }

 private:
  c10::cuda::OptionalCUDAStreamGuard guard_;
};

class ModelOnGpu : public CapturedOnGpu, public testing::WithParamInterface<ModelConfig> {};

TEST_P(ModelOnGpu, IsThatOfTheCpuInFloat) {
  const Sample on_cpu(GetParam(), at::kCPU, at::kFloat), on_gpu(GetParam(), at::kCUDA, at::kFloat);
  const double expected = on_cpu.step().item<double>();
  EXPECT_NEAR(on_gpu.step().item<double>(), expected, 1e-5 * expected);
  EXPECT_LT(relative_error(on_gpu.gradients(), on_cpu.gradients()), 2e-5);
}

TEST_P(ModelOnGpu, IsNearItInBfloat16) {
  const Sample exact(GetParam(), at::kCUDA, at::kFloat), rounded(GetParam(), at::kCUDA, at::kBFloat16);
  const double expected = exact.step().item<double>();
  EXPECT_NEAR(rounded.step().item<double>(), expected, 1e-2 * expected);
  EXPECT_LT(relative_error(rounded.gradients(), exact.gradients()),
            4e-2);  // some twenty roundings, one after another
}

TEST_P(ModelOnGpu, HasTheSameBitsEveryTimeWhereAsked) {
  register_stream(true);
  const Sample model(GetParam(), at::kCUDA, at::kBFloat16);
  model.step();
  const Tensor first = model.gradients();
  for (int time = 0; time < 3; ++time) {
    model.clear_gradients();
    model.step();
    EXPECT_TRUE(at::equal(model.gradients(), first));
  }
}

void expect_captured(const ModelConfig& config, double tolerance) {
  const Sample model(config, at::kCUDA, at::kBFloat16);
  const double loss = model.step().item<double>();  // and all that is done at the first time
  const Tensor expected = model.gradients();
  at::cuda::getCurrentCUDAStream().synchronize();
  at::cuda::CUDAGraph graph;
  graph.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
  const Tensor captured = model.step();
  graph.capture_end();
  for (int time = 0; time < 2; ++time) {
    model.clear_gradients();
    graph.replay();
    EXPECT_EQ(captured.item<double>(), loss);
    EXPECT_LE(relative_error(model.gradients(), expected), tolerance);
  }
}

TEST_P(ModelOnGpu, CanBeCaptured) {
  expect_captured(GetParam(), 1e-3);  // of additions in another order
}

TEST_P(ModelOnGpu, CanBeCapturedWithTheSameBits) {
  register_stream(true);
  expect_captured(GetParam(), 0.0);
}

// As in a stage: the key is written to the address that the graph reads.
TEST_F(CapturedOnGpu, AGraphDrawsTheMasksOfTheMicrobatchThatItRunsFor) {
  register_stream(true);
  Sample model(dropping(gpt()), at::kCUDA, at::kBFloat16);
  std::vector<double> losses;
  std::vector<Tensor> gradients;
  for (const std::int64_t microbatch : {0, 1, 2}) {
    model.set_microbatch(microbatch);
    model.clear_gradients();
    losses.push_back(model.step().item<double>());
    gradients.push_back(model.gradients());
  }
  EXPECT_NE(losses[1], losses[0]);
  at::cuda::getCurrentCUDAStream().synchronize();
  at::cuda::CUDAGraph graph;
  graph.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
  const Tensor captured = model.step();
  graph.capture_end();
  for (const std::int64_t microbatch : {1, 0, 2}) {
    model.set_microbatch(microbatch);
    model.clear_gradients();
    graph.replay();
    EXPECT_EQ(captured.item<double>(), losses[microbatch]);
    EXPECT_TRUE(at::equal(model.gradients(), gradients[microbatch]));
  }
}

INSTANTIATE_TEST_SUITE_P(Families, ModelOnGpu,
                         testing::Values(gpt(), dropping(gpt()), dropping(bert(ModelHead::MaskedLm)),
                                         dropping(bert(ModelHead::Classification)), llama(), qwen3(),
                                         bert(ModelHead::MaskedLm), bert(ModelHead::Classification),
                                         bert(ModelHead::Regression), bert_without_padding(),
                                         classifying_llama(), resetting(gpt()), resetting(dropping(gpt())),
                                         resetting(llama()), resetting(qwen3())),
                         [](const auto& info) {
                           const ModelConfig& config = info.param;
                           const std::string family = config.qk_norm ? "qwen3" : config.family;
                           return family + "_" + std::string(name(config.head)) +
                                  (config.padding ? "" : "_without_padding") +
                                  (config.reset_documents ? "_documents" : "") +
                                  (config.dropout > 0 ? "_dropout" : "");
                         });

}  // namespace
}  // namespace twobw::models
