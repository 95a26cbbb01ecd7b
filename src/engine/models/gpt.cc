// The forwards of the layers that planning/architecture/gpt.cc describes.
#include "engine/models/decoding.h"
#include "engine/models/model.h"
#include "engine/models/ops.h"
#include "planning/architecture/families.h"

namespace twobw::models {
namespace {

struct Gpt {
  using Parameters = std::span<const Tensor>;

  ops::Heads heads;
  double dropout;
  ModelHead tells;

  Tensors embedding(Parameters p, const Tensors&, const MicrobatchContext& pass) const {
    const Tensor sum = ops::embed(p[0], p[1], pass.batch[Field::Tokens], pass.batch[Field::Positions]);
    return {ops::dropout(sum, dropout, pass, 0)};
  }

  // The first half of either branch: norm and product, and the residual stream.
  Tensors norm_and_product(Parameters p, const Tensors& inputs, const MicrobatchContext&) const {
    const auto [normed, stream] = ops::norm_and_stream(inputs[0], p[0], p[1]);
    return {ops::linear(normed, p[2], p[3]), stream};
  }

  Tensors attention_out(Parameters p, const Tensors& inputs, const MicrobatchContext& pass) const {
    const Tensor& positions = pass.batch[Field::Positions];
    const Tensor mixed = ops::causal_attention(inputs[0], heads.queries, dropout, pass, 0, positions);
    return {add_branch(inputs[1], mixed, p, pass, 1)};
  }

  Tensors mlp_activation(Parameters, const Tensors& inputs, const MicrobatchContext&) const {
    return {ops::gelu(inputs[0]), inputs[1]};
  }

  Tensors mlp_down(Parameters p, const Tensors& inputs, const MicrobatchContext& pass) const {
    return {add_branch(inputs[1], inputs[0], p, pass, 0)};
  }

  Tensors head(Parameters p, const Tensors& inputs, const MicrobatchContext& pass) const {
    if (architecture::is_sequence_head(tells)) {
      const Tensor last = ops::last_token(inputs[0], pass.batch[Field::Lengths]);
      return {sequence_head(tells, ops::layer_norm(last, p[0], p[1]), p[2], {}, pass)};
    }
    return {token_head(ops::layer_norm(inputs[0], p[0], p[1]), p[2], {}, pass)};
  }

  Tensors embedding_step(Parameters p, const Tensors& inputs, const Step& step) const {
    if (!step.begins())
      return {ops::embedding(p[0], step.tokens) + ops::embedding(p[1], step.seen.unsqueeze(1))};
    MicrobatchContext pass;
    pass.batch[Field::Tokens] = step.tokens;
    return embedding(p, inputs, pass);
  }

  Tensors attention_step(Parameters p, const Tensors& inputs, const Step& step) const {
    return {ops::linear_add(ops::cached_attention(inputs[0], heads, step), p[0], p[1], inputs[1])};
  }

 private:
  // The end of a residual branch: its last product, with dropout, onto the stream x. `p` is weight and bias.
  Tensor add_branch(const Tensor& x, const Tensor& inner, Parameters p, const MicrobatchContext& pass,
                    int site) const {
    if (dropout == 0.0 || !pass.training) return ops::linear_add(inner, p[0], p[1], x);
    return ops::dropout_add(ops::linear(inner, p[0], p[1]), x, dropout, pass, site);
  }
};

Gpt gpt_of(const ModelConfig& config) {
  return {.heads = {.queries = config.heads, .keys = config.heads, .size = config.width / config.heads},
          .dropout = config.dropout,
          .tells = config.head};
}

}  // namespace

std::vector<LayerStep> steps_of_gpt(const ModelConfig& config, const architecture::Model& model) {
  const Gpt gpt = gpt_of(config);
  std::vector<LayerStep> steps;
  for (const architecture::Layer& layer : model) {
    LayerStep& step = steps.emplace_back();
    if (layer.kind == "embedding") step.forward = std::bind_front(&Gpt::embedding_step, gpt);
    if (layer.kind != "attention_out") continue;
    step.keeps = gpt.heads;
    step.forward = std::bind_front(&Gpt::attention_step, gpt);
  }
  return steps;
}

Forward forward_of_gpt(const ModelConfig& config, const architecture::Layer& layer) {
  return forward_of_kind<Gpt>(gpt_of(config), layer,
                              {{"embedding", &Gpt::embedding},
                               {"attention_in", &Gpt::norm_and_product},
                               {"attention_out", &Gpt::attention_out},
                               {"mlp_up", &Gpt::norm_and_product},
                               {"mlp_activation", &Gpt::mlp_activation},
                               {"mlp_down", &Gpt::mlp_down},
                               {"head", &Gpt::head}});
}

}  // namespace twobw::models
