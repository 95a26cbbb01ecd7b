#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../weights/toy_model.h"
#include "core/base/random.h"
#include "engine/models/model.h"
#include "engine/models/ops.h"
#include "engine/weights/double_buffer.h"
#include "engine/weights/layout.h"
#include "tensors.h"
#include "tests/support/covering.h"

namespace twobw::models {
namespace {

using at::Tensor;

constexpr int kLayers = 12;  // embedding, two blocks, head

ModelConfig small(bool tied = true, double dropout = 0.0) {
  return {.layers = 2, .width = 16, .heads = 2, .vocab = 29, .context = 7, .tied = tied, .dropout = dropout};
}

constexpr double kLossScale = 0.25 / 21;

MicrobatchContext training_pass() {
  MicrobatchContext pass{.training = true, .seed = 3, .update = 4, .microbatch = 5};
  pass.batch[Field::Tokens] = random_tokens({3, 7}, 29, 1);
  pass.batch[Field::Targets] = random_tokens({3, 7}, 29, 2);
  pass.batch[Field::TokenTypes] = random_tokens({3, 7}, 2, 3);
  pass.batch[Field::Lengths] = at::tensor({7, 4, 1}, at::kLong);
  pass.batch[Field::Labels] = at::tensor({1, 0, 2}, at::kLong);
  pass.batch[Field::Values] = at::tensor({0.5, -1.0, 2.0}, at::kDouble);
  pass.batch[Field::LossScale] = at::full({1}, kLossScale, at::kDouble);
  return pass;
}

std::map<std::string, architecture::Parameter> specs_of(const Model& model) {
  std::map<std::string, architecture::Parameter> specs;
  for (const architecture::Layer& layer : model.layers) {
    for (const architecture::Parameter& spec : layer.parameters) {
      EXPECT_TRUE(specs.emplace(spec.name, spec).second) << spec.name << " comes twice";
    }
  }
  return specs;
}

TEST(Gpt, IsDescribedInALineWhateverItsDepth) {
  ModelConfig config = small();
  EXPECT_EQ(
      architecture::describe(build(config).layers),
      "12 layers: embedding, 2 x (attention_in, attention_out, mlp_up, mlp_activation, mlp_down), head");
  config.layers = 24;
  EXPECT_EQ(
      architecture::describe(build(config).layers),
      "122 layers: embedding, 24 x (attention_in, attention_out, mlp_up, mlp_activation, mlp_down), head");
  config.layers = 1;
  EXPECT_EQ(architecture::describe(build(config).layers),
            "7 layers: embedding, attention_in, attention_out, mlp_up, mlp_activation, mlp_down, head");
}

TEST(Gpt, HasTheNumberOfParametersOfTheFormula) {
  const auto formula = [](const ModelConfig& c) {
    const std::int64_t w = c.width, vocab = c.vocab;
    return vocab * w * (c.tied ? 1 : 2) + c.context * w + c.layers * (12 * w * w + 13 * w) + 2 * w;
  };
  for (bool tied : {true, false}) {
    EXPECT_EQ(architecture::parameter_count(build(small(tied)).layers), formula(small(tied)));
  }
  const ModelConfig gpt2{.layers = 12, .width = 768, .heads = 12, .vocab = 50'257, .context = 1024};
  EXPECT_EQ(architecture::parameter_count(build(gpt2).layers), 124'439'808);  // as published
}

TEST(Gpt, TheHeadIsTiedToTheTokensWhenAsked) {
  EXPECT_EQ(specs_of(build(small(true))).at("head.weight").tied_to, "embedding.tokens");
  EXPECT_EQ(specs_of(build(small(false))).at("head.weight").tied_to, "");
}

TEST(Gpt, MatricesDecayAndBiasesAndGainsDoNot) {
  for (const auto& [name, spec] : specs_of(build(small(false)))) {
    EXPECT_EQ(spec.decay, spec.shape.size() == 2) << name;
    EXPECT_EQ(spec.init_mean, name.ends_with("norm.weight") ? 1.0 : 0.0) << name;
    EXPECT_EQ(spec.init_std == 0.0, spec.shape.size() == 1) << name;
  }
}

TEST(Gpt, ProjectionsBackIntoTheResidualStartSmaller) {
  const auto specs = specs_of(build(small()));
  EXPECT_DOUBLE_EQ(specs.at("blocks.0.attention.qkv.weight").init_std, 0.02);
  EXPECT_DOUBLE_EQ(specs.at("blocks.0.attention.out.weight").init_std, 0.02 / std::sqrt(4));  // two a block
  EXPECT_DOUBLE_EQ(specs.at("blocks.1.mlp.down.weight").init_std, 0.02 / std::sqrt(4));
}

// A stage's layers on its own weights and gradients, as the runtime holds them.
struct Part {
  Part(const Model& model, int first, int last)
      : model(model),
        layout(model.layers, first, last),
        versions(layout, 1, /*seed=*/11),
        gradients(layout, 1) {
    // Distinct gains and biases; the initial ones are equal.
    at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < layout.parameters().size(); ++i) {
      const weights::Parameter& parameter = layout.parameters()[i];
      if (parameter.spec.shape.size() > 1) continue;
      versions.flat(0)
          .narrow(0, parameter.offset, parameter.count)
          .add_(normal({parameter.count}, hash_text(parameter.spec.name)), 0.1);
    }
    gradients.attach(0, versions.parameters(0));
  }

  Tensor forward(Tensors x, MicrobatchContext pass) const {
    return forward_all(std::move(x), std::move(pass)).front();
  }

  Tensors forward_all(Tensors x, MicrobatchContext pass) const {
    return run_layers(model, layout.first_layer(), layout.last_layer(), versions.parameters(0), std::move(x),
                      std::move(pass));
  }

  const Model& model;
  weights::Layout layout;
  weights::Versions versions;
  weights::Gradients gradients;
};

struct Outcome {
  Tensor loss;
  std::map<std::string, Tensor> gradients;
};

// Forward and backward over the stages of a split, with activations and gradients handed over between them.
Outcome run(const Model& model, const std::vector<std::pair<int, int>>& split) {
  std::vector<std::unique_ptr<Part>> parts;
  for (const auto& [first, last] : split) parts.push_back(std::make_unique<Part>(model, first, last));
  std::vector<Tensors> inputs(parts.size()), outputs;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) {
      for (const Tensor& x : outputs.back()) inputs[i].push_back(leaf(x));
    }
    outputs.push_back(parts[i]->forward_all(inputs[i], training_pass()));
  }
  Outcome outcome{.loss = outputs.back().front().detach()};
  Tensors gradients;
  for (std::size_t i = parts.size(); i-- > 0;) {
    torch::autograd::backward(outputs[i], gradients);
    gradients.clear();
    for (const Tensor& input : inputs[i]) gradients.push_back(input.grad());
    const Part& part = *parts[i];
    for (std::size_t p = 0; p < part.layout.parameters().size(); ++p) {
      outcome.gradients[part.layout.parameters()[p].spec.name] = part.gradients.of(0, static_cast<int>(p));
    }
  }
  return outcome;
}

class Splits : public testing::TestWithParam<ModelConfig> {
 protected:
  // The loss and every gradient, by name.
  static void expect_equal(const Outcome& parts, const Outcome& whole) {
    EXPECT_TRUE(at::equal(parts.loss, whole.loss));
    ASSERT_EQ(parts.gradients.size(), whole.gradients.size());
    for (const auto& [name, gradient] : whole.gradients) {
      EXPECT_TRUE(at::equal(parts.gradients.at(name), gradient)) << name;
      EXPECT_GT(gradient.abs().max().item<double>(), 0) << name;
    }
  }
};

// Every layer a stage; in complete sweeps every split of one block, some 32.
TEST_P(Splits, AnyOneGivesEveryBitOfTheWhole) {
  ModelConfig config = GetParam();
  if (full_sweeps()) config.layers = 1;
  const Model model = build(config);
  const int layers = static_cast<int>(model.size());
  const Outcome whole = run(model, {{0, layers}});
  EXPECT_GT(whole.loss.item<double>(), 0);
  std::vector<std::pair<int, int>> finest;
  for (int layer = 0; layer < layers; ++layer) finest.emplace_back(layer, layer + 1);
  expect_equal(run(model, finest), whole);
  if (!full_sweeps()) return;
  for (const auto& split : weights::all_splits(layers)) {
    SCOPED_TRACE(split.size());
    expect_equal(run(model, split), whole);
  }
}

ModelConfig small_llama(bool tied, bool qwen3) {
  ModelConfig config = small(tied);
  config.family = "llama";
  config.heads = 4;
  config.kv_heads = 2;
  config.head_size = qwen3 ? 6 : 0;
  config.hidden = 20;
  config.qkv_bias = !qwen3;
  config.qk_norm = qwen3;
  return config;
}

INSTANTIATE_TEST_SUITE_P(Llama, Splits, testing::Values(small_llama(true, false), small_llama(false, true)),
                         [](const auto& info) { return info.param.qk_norm ? "Qwen3" : "TiedQwen2"; });

ModelConfig small_bert(ModelHead head, double dropout = 0.0) {
  ModelConfig config = small(true, dropout);
  config.family = "bert";
  config.head = head;
  config.num_labels = head == ModelHead::Classification ? 3 : 2;
  config.hidden = 20;
  return config;
}

INSTANTIATE_TEST_SUITE_P(
    Bert, Splits,
    testing::Values(small_bert(ModelHead::MaskedLm), small_bert(ModelHead::MaskedLm, 0.1),
                    small_bert(ModelHead::Classification, 0.1), small_bert(ModelHead::Regression)),
    [](const auto& info) {
      return std::string(name(info.param.head)) + (info.param.dropout > 0 ? "_dropout" : "");
    });

// Decoders that classify a sequence by its last token.
ModelConfig classifying(ModelConfig config) {
  config.head = ModelHead::Classification;
  config.num_labels = 3;
  return config;
}

INSTANTIATE_TEST_SUITE_P(Classifiers, Splits,
                         testing::Values(classifying(small()), classifying(small_llama(false, true))),
                         [](const auto& info) { return info.param.family; });

INSTANTIATE_TEST_SUITE_P(Gpt, Splits, testing::Values(small(true), small(false), small(true, 0.1)),
                         [](const auto& info) {
                           const ModelConfig& config = info.param;
                           return std::string(config.tied ? "Tied" : "Untied") +
                                  (config.dropout > 0 ? "Dropout" : "");
                         });

// GPT-2 from plain tensor operations, in double. `drop` takes the layer and the site.
template <typename Drop>
Tensor plain_logits(const std::map<std::string, Tensor>& p, const Tensor& tokens, Drop drop) {
  const auto norm = [&](const Tensor& x, const std::string& at) {
    return at::layer_norm(x, {16}, p.at(at + ".weight"), p.at(at + ".bias"), 1e-5);
  };
  const auto linear = [&](const Tensor& x, const std::string& at) {
    return at::linear(x, p.at(at + ".weight"), p.at(at + ".bias"));
  };
  const auto attention = [&](const Tensor& qkv, int layer) {
    const Tensor parts = qkv.view({3, 7, 3, 2, 8}).permute({2, 0, 3, 1, 4});  // [qkv, b, head, T, 8]
    const Tensor future = at::ones({7, 7}, at::kBool).triu(1);
    const Tensor scores = at::matmul(parts[0], parts[1].transpose(-2, -1)) / std::sqrt(8.0);
    const Tensor share = at::softmax(scores.masked_fill(future, -INFINITY), -1);
    return at::matmul(drop(share, layer, 0), parts[2]).transpose(1, 2).reshape({3, 7, 16});
  };
  Tensor x = drop(at::embedding(p.at("embedding.tokens"), tokens) + p.at("embedding.positions"), 0, 0);
  for (int block = 0; block < 2; ++block) {
    const std::string at = "blocks." + std::to_string(block);
    const int layer = 2 + 5 * block;  // attention_out, after attention_in; then the layers of the MLP
    const Tensor mixed = attention(linear(norm(x, at + ".attention.norm"), at + ".attention.qkv"), layer);
    x = x + drop(linear(mixed, at + ".attention.out"), layer, 1);
    const Tensor hidden = at::gelu(linear(norm(x, at + ".mlp.norm"), at + ".mlp.up"), "tanh");
    x = x + drop(linear(hidden, at + ".mlp.down"), layer + 3, 0);
  }
  return at::linear(norm(x, "head.norm"), p.at("head.weight"));
}

TEST(Gpt, AgreesWithPlainTensorOperations) {
  for (double dropout : {0.0, 0.2}) {
    const Model model = build(small(/*tied=*/false, dropout));
    const Part part(model, 0, kLayers);
    std::map<std::string, Tensor> exact;
    for (std::size_t i = 0; i < part.layout.parameters().size(); ++i) {
      exact[part.layout.parameters()[i].spec.name] = leaf(part.versions.parameters(0)[i], at::kDouble);
    }
    MicrobatchContext pass = training_pass();
    const auto drop = [&](const Tensor& x, int layer, int site) {
      pass.layer = layer;
      return x * ops::dropout(at::ones(x.sizes()), dropout, pass, site).to(at::kDouble);
    };
    const Tensor logits = plain_logits(exact, pass.batch[Field::Tokens], drop);
    const Tensor loss =
        kLossScale * at::cross_entropy_loss(logits.view({21, 29}), pass.batch[Field::Targets].view({21}), {},
                                            at::Reduction::Sum);
    torch::autograd::backward({loss}, {});

    const Outcome outcome = run(model, {{0, kLayers}});
    expect_close(outcome.loss, loss, 1e-6);
    for (const auto& [name, gradient] : outcome.gradients) {
      SCOPED_TRACE(name);
      expect_close(gradient, exact.at(name).grad(), 1e-5);
    }

    pass.batch[Field::Targets] = Tensor();  // then the head gives logits
    expect_close(part.forward({}, pass), logits, 1e-5);
  }
}

TEST(Gpt, ARecomputationRepeatsTheForward) {
  const Model model = build(small(true, 0.1));
  const Part part(model, 0, 5);
  Tensor first;
  {
    at::NoGradGuard no_grad;
    first = part.forward({}, training_pass());
  }
  EXPECT_TRUE(at::equal(part.forward({}, training_pass()), first));
}

TEST(Gpt, DropoutIsForTrainingOnly) {
  const Model with = build(small(true, 0.1)), without = build(small(true, 0.0));
  MicrobatchContext pass = training_pass();
  const Tensor trained = Part(with, 0, kLayers).forward({}, pass);
  pass.training = false;
  const Tensor evaluated = Part(with, 0, kLayers).forward({}, pass);
  EXPECT_TRUE(at::equal(evaluated, Part(without, 0, kLayers).forward({}, pass)));
  EXPECT_FALSE(at::equal(evaluated, trained));
}

}  // namespace
}  // namespace twobw::models
