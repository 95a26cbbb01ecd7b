// The forwards of the layers that planning/architecture/gpt.cc describes.
#include <map>

#include "core/base/error.h"
#include "engine/models/decoding.h"
#include "engine/models/model.h"
#include "engine/models/ops.h"
#include "planning/architecture/families.h"

namespace twobw::models {
namespace {

using at::Tensor;
using Parameters = std::span<const Tensor>;

// The end of a residual branch: its last product, with dropout, onto the stream x. `p` is weight and bias.
Tensor add_branch(const Tensor& x, const Tensor& inner, Parameters p, double dropout,
                  const MicrobatchContext& pass, int site) {
  if (dropout == 0.0 || !pass.training) return ops::linear_add(inner, p[0], p[1], x);
  return ops::dropout_add(ops::linear(inner, p[0], p[1]), x, dropout, pass, site);
}

Tensors embedding(const ModelConfig& config, Parameters p, const Tensors&, const MicrobatchContext& pass) {
  const Tensor sum = ops::embed(p[0], p[1], pass.batch[Field::Tokens], pass.batch[Field::Positions]);
  return {ops::dropout(sum, config.dropout, pass, 0)};
}

// The first half of either branch: norm and product, and the residual stream.
Tensors norm_and_product(const ModelConfig&, Parameters p, const Tensors& inputs, const MicrobatchContext&) {
  const auto [normed, stream] = ops::norm_and_stream(inputs[0], p[0], p[1]);
  return {ops::linear(normed, p[2], p[3]), stream};
}

Tensors attention_out(const ModelConfig& config, Parameters p, const Tensors& inputs,
                      const MicrobatchContext& pass) {
  const Tensor mixed =
      ops::causal_attention(inputs[0], config.heads, config.dropout, pass, 0, pass.batch[Field::Positions]);
  return {add_branch(inputs[1], mixed, p, config.dropout, pass, 1)};
}

Tensors mlp_activation(const ModelConfig&, Parameters, const Tensors& inputs, const MicrobatchContext&) {
  return {ops::gelu(inputs[0]), inputs[1]};
}

Tensors mlp_down(const ModelConfig& config, Parameters p, const Tensors& inputs,
                 const MicrobatchContext& pass) {
  return {add_branch(inputs[1], inputs[0], p, config.dropout, pass, 0)};
}

Tensors head_of_sequence(const ModelConfig& config, Parameters p, const Tensors& inputs,
                         const MicrobatchContext& pass) {
  const Tensor last = ops::last_token(inputs[0], pass.batch[Field::Lengths]);
  return {sequence_head(config.head, ops::layer_norm(last, p[0], p[1]), p[2], {}, pass)};
}

Tensors head(const ModelConfig& config, Parameters p, const Tensors& inputs, const MicrobatchContext& pass) {
  if (architecture::is_sequence_head(config.head)) return head_of_sequence(config, p, inputs, pass);
  const Tensor hidden = ops::layer_norm(inputs[0], p[0], p[1]);
  if (!pass.batch[Field::Targets].defined()) return {ops::linear(hidden, p[2], {})};
  return {ops::head_loss(hidden, p[2], {}, pass.batch[Field::Targets], pass.batch[Field::LossScale],
                         pass.room, pass.loss_scale)};
}

// In a step.

Tensors embedding_step(const ModelConfig& config, Parameters p, const Tensors& inputs, const Step& step) {
  if (!step.begins())
    return {ops::embedding(p[0], step.tokens) + ops::embedding(p[1], step.seen.unsqueeze(1))};
  MicrobatchContext pass;
  pass.batch[Field::Tokens] = step.tokens;
  return embedding(config, p, inputs, pass);
}

ops::Heads heads_of(const ModelConfig& config) {
  return {.queries = config.heads, .keys = config.heads, .size = config.width / config.heads};
}

Tensors attention_step(const ModelConfig& config, Parameters p, const Tensors& inputs, const Step& step) {
  const Tensor mixed = ops::cached_attention(inputs[0], heads_of(config), step);
  return {ops::linear_add(mixed, p[0], p[1], inputs[1])};
}

}  // namespace

std::vector<LayerStep> steps_of_gpt(const ModelConfig& config, const architecture::Model& model) {
  std::vector<LayerStep> steps;
  for (const architecture::Layer& layer : model) {
    LayerStep& step = steps.emplace_back();
    if (layer.kind == "embedding")
      step.forward = [config](Parameters p, const Tensors& x, const Step& s) {
        return embedding_step(config, p, x, s);
      };
    if (layer.kind != "attention_out") continue;
    step.keeps = heads_of(config);
    step.forward = [config](Parameters p, const Tensors& x, const Step& s) {
      return attention_step(config, p, x, s);
    };
  }
  return steps;
}

Forward forward_of_gpt(const ModelConfig& config, const architecture::Layer& layer) {
  using Of = Tensors (*)(const ModelConfig&, Parameters, const Tensors&, const MicrobatchContext&);
  static const std::map<std::string, Of> by_kind = {{"embedding", embedding},
                                                    {"attention_in", norm_and_product},
                                                    {"attention_out", attention_out},
                                                    {"mlp_up", norm_and_product},
                                                    {"mlp_activation", mlp_activation},
                                                    {"mlp_down", mlp_down},
                                                    {"head", head}};
  const auto found = by_kind.find(layer.kind);
  TWOBW_ASSERT(found != by_kind.end(), "no forward for a {} of gpt", layer.kind);
  return
      [config, forward = found->second](Parameters p, const Tensors& inputs, const MicrobatchContext& pass) {
        return forward(config, p, inputs, pass);
      };
}

}  // namespace twobw::models
