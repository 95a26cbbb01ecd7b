// GPT-2 (Radford et al. 2019): learned positions, layer norm before each half block, GELU (tanh),
// biases everywhere but in the head, dropout after the embedding, in the attention and on both
// residual branches.
#include <cmath>

#include "models/model.h"
#include "models/ops.h"

namespace twobw::models {
namespace {

using at::Tensor;

constexpr double kStd = 0.02;

ParameterSpec matrix(std::string name, std::int64_t rows, std::int64_t columns, double std = kStd) {
  return {.name = std::move(name), .shape = {rows, columns}, .init_std = std};
}
ParameterSpec bias(std::string name, std::int64_t size) {
  return {.name = std::move(name), .shape = {size}, .decay = false};
}
ParameterSpec gain(std::string name, std::int64_t size) {
  return {.name = std::move(name), .shape = {size}, .init_mean = 1.0, .decay = false};
}

// The end of a residual branch: its last product, with dropout, onto the stream x. `p` is weight and bias.
Tensor add_branch(const Tensor& x, const Tensor& inner, std::span<const Tensor> p, double dropout,
                  const Pass& pass, int site) {
  if (dropout == 0.0 || !pass.training) return ops::linear_add(inner, p[0], p[1], x);
  return x + ops::dropout(ops::linear(inner, p[0], p[1]), dropout, pass, site);
}

class Embedding : public Layer {
 public:
  explicit Embedding(const ModelConfig& config) : config_(config) {}
  std::string kind() const override { return "embedding"; }
  std::vector<ParameterSpec> parameters() const override {
    return {matrix("embedding.tokens", config_.vocab, config_.width),
            matrix("embedding.positions", config_.context, config_.width)};
  }
  Tensors forward(std::span<const Tensor> p, const Tensors&, const Pass& pass) const override {
    return {ops::dropout(ops::embed(p[0], p[1], pass.tokens), config_.dropout, pass, 0)};
  }

 private:
  ModelConfig config_;
};

// A block is five layers, so that stages can be cut evenly even where a half of it outweighs what is left
// to balance. Inside a half travel the inner activations and the residual stream.
class AttentionIn : public Layer {
 public:
  AttentionIn(const ModelConfig& config, int block) : config_(config), block_(block) {}
  std::string kind() const override { return "attention_in"; }
  std::vector<ParameterSpec> parameters() const override {
    const std::string at = "blocks." + std::to_string(block_) + ".attention.";
    const std::int64_t w = config_.width;
    return {gain(at + "norm.weight", w), bias(at + "norm.bias", w), matrix(at + "qkv.weight", 3 * w, w),
            bias(at + "qkv.bias", 3 * w)};
  }
  Tensors forward(std::span<const Tensor> p, const Tensors& inputs, const Pass&) const override {
    const auto [normed, stream] = ops::norm_and_stream(inputs[0], p[0], p[1]);
    return {ops::linear(normed, p[2], p[3]), stream};
  }

 private:
  ModelConfig config_;
  int block_;
};

class AttentionOut : public Layer {
 public:
  AttentionOut(const ModelConfig& config, int block) : config_(config), block_(block) {}
  std::string kind() const override { return "attention_out"; }
  std::vector<ParameterSpec> parameters() const override {
    const std::string at = "blocks." + std::to_string(block_) + ".attention.";
    const std::int64_t w = config_.width;
    return {matrix(at + "out.weight", w, w, kStd / std::sqrt(2.0 * config_.layers)),
            bias(at + "out.bias", w)};
  }
  Tensors forward(std::span<const Tensor> p, const Tensors& inputs, const Pass& pass) const override {
    const Tensor& qkv = inputs[0];
    const Tensor& x = inputs[1];
    const Tensor mixed = ops::causal_attention(qkv, config_.heads, config_.dropout, pass, 0);
    return {add_branch(x, mixed, p, config_.dropout, pass, 1)};
  }

 private:
  ModelConfig config_;
  int block_;
};

class MlpUp : public Layer {
 public:
  MlpUp(const ModelConfig& config, int block) : config_(config), block_(block) {}
  std::string kind() const override { return "mlp_up"; }
  std::vector<ParameterSpec> parameters() const override {
    const std::string at = "blocks." + std::to_string(block_) + ".mlp.";
    const std::int64_t w = config_.width;
    return {gain(at + "norm.weight", w), bias(at + "norm.bias", w), matrix(at + "up.weight", 4 * w, w),
            bias(at + "up.bias", 4 * w)};
  }
  Tensors forward(std::span<const Tensor> p, const Tensors& inputs, const Pass&) const override {
    const auto [normed, stream] = ops::norm_and_stream(inputs[0], p[0], p[1]);
    return {ops::linear(normed, p[2], p[3]), stream};
  }

 private:
  ModelConfig config_;
  int block_;
};

class MlpActivation : public Layer {
 public:
  std::string kind() const override { return "mlp_activation"; }
  std::vector<ParameterSpec> parameters() const override { return {}; }
  Tensors forward(std::span<const Tensor>, const Tensors& inputs, const Pass&) const override {
    return {ops::gelu(inputs[0]), inputs[1]};
  }
};

class MlpDown : public Layer {
 public:
  MlpDown(const ModelConfig& config, int block) : config_(config), block_(block) {}
  std::string kind() const override { return "mlp_down"; }
  std::vector<ParameterSpec> parameters() const override {
    const std::string at = "blocks." + std::to_string(block_) + ".mlp.";
    const std::int64_t w = config_.width;
    return {matrix(at + "down.weight", w, 4 * w, kStd / std::sqrt(2.0 * config_.layers)),
            bias(at + "down.bias", w)};
  }
  Tensors forward(std::span<const Tensor> p, const Tensors& inputs, const Pass& pass) const override {
    const Tensor& hidden = inputs[0];
    const Tensor& x = inputs[1];
    return {add_branch(x, hidden, p, config_.dropout, pass, 0)};
  }

 private:
  ModelConfig config_;
  int block_;
};

class Head : public Layer {
 public:
  explicit Head(const ModelConfig& config) : config_(config) {}
  std::string kind() const override { return "head"; }
  std::vector<ParameterSpec> parameters() const override {
    ParameterSpec weight = matrix("head.weight", config_.vocab, config_.width);
    if (config_.tied) weight.tied_to = "embedding.tokens";
    return {gain("head.norm.weight", config_.width), bias("head.norm.bias", config_.width), weight};
  }
  Tensors forward(std::span<const Tensor> p, const Tensors& inputs, const Pass& pass) const override {
    const Tensor hidden = ops::layer_norm(inputs[0], p[0], p[1]);
    if (!pass.targets.defined()) return {ops::linear(hidden, p[2], {})};
    return {ops::head_loss(hidden, p[2], pass.targets, pass.loss_scale, pass.room)};
  }

 private:
  ModelConfig config_;
};

}  // namespace

LayerList build_gpt(const ModelConfig& config) {
  LayerList layers;
  layers.push_back(std::make_unique<Embedding>(config));
  for (int block = 0; block < config.layers; ++block) {
    layers.push_back(std::make_unique<AttentionIn>(config, block));
    layers.push_back(std::make_unique<AttentionOut>(config, block));
    layers.push_back(std::make_unique<MlpUp>(config, block));
    layers.push_back(std::make_unique<MlpActivation>());
    layers.push_back(std::make_unique<MlpDown>(config, block));
  }
  layers.push_back(std::make_unique<Head>(config));
  return layers;
}

}  // namespace twobw::models
