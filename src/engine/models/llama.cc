// The forwards of the layers that planning/architecture/llama.cc describes.
#include "planning/architecture/llama.h"

#include <memory>

#include "engine/models/decoding.h"
#include "engine/models/model.h"
#include "engine/models/ops.h"
#include "engine/models/rotary.h"
#include "planning/architecture/families.h"

namespace twobw::models {
namespace {

struct Llama {
  using Parameters = std::span<const Tensor>;

  double norm_eps;
  ModelHead tells;
  ops::Heads heads;
  std::shared_ptr<RotaryTable> rotary;  // of the layers that use it

  Tensors embedding(Parameters p, const Tensors&, const MicrobatchContext& pass) const {
    return {ops::embedding(p[0], pass.batch[Field::Tokens])};
  }

  // The first half of either branch: norm and product, and the residual stream.
  Tensors norm_and_product(Parameters p, const Tensors& inputs, const MicrobatchContext&) const {
    const auto [normed, stream] = ops::norm_and_stream(inputs[0], p[0], {}, norm_eps);
    return {ops::linear(normed, p[1], p.size() > 2 ? p[2] : Tensor()), stream};
  }

  Tensors attention_out(Parameters p, const Tensors& inputs, const MicrobatchContext& pass) const {
    const Tensor& positions = pass.batch[Field::Positions];
    Tensor qkv = inputs[0];
    if (p.size() > 1) qkv = ops::norm_heads(qkv, heads, p[1], p[2], norm_eps);
    qkv = ops::rotate(qkv, heads, rotary->angles(qkv.size(1), qkv.device()), positions);
    return {ops::linear_add(ops::grouped_attention(qkv, heads, positions), p[0], {}, inputs[1])};
  }

  Tensors attention_step(Parameters p, const Tensors& inputs, const Step& step) const {
    Tensor qkv = inputs[0];
    if (p.size() > 1) qkv = ops::norm_heads(qkv, heads, p[1], p[2], norm_eps);
    const std::int64_t places = step.begins() ? qkv.size(1) : step.cache.keys.size(2);
    const Tensor angles = rotary->angles(places, qkv.device());
    return {ops::linear_add(ops::cached_attention(qkv, heads, step, angles), p[0], {}, inputs[1])};
  }

  Tensors mlp_activation(Parameters, const Tensors& inputs, const MicrobatchContext&) const {
    return {ops::swiglu(inputs[0]), inputs[1]};
  }

  Tensors mlp_down(Parameters p, const Tensors& inputs, const MicrobatchContext&) const {
    return {ops::linear_add(inputs[0], p[0], {}, inputs[1])};
  }

  Tensors head(Parameters p, const Tensors& inputs, const MicrobatchContext& pass) const {
    if (architecture::is_sequence_head(tells)) {
      const Tensor last = ops::last_token(inputs[0], pass.batch[Field::Lengths]);
      return {sequence_head(tells, ops::rms_norm(last, p[0], norm_eps), p[1], {}, pass)};
    }
    return {token_head(ops::rms_norm(inputs[0], p[0], norm_eps), p[1], {}, pass)};
  }
};

Llama llama_of(const ModelConfig& config, bool turns) {
  return {.norm_eps = config.norm_eps,
          .tells = config.head,
          .heads = {.queries = config.heads,
                    .keys = architecture::kv_heads(config),
                    .size = architecture::head_size(config)},
          .rotary = turns ? RotaryTable::of(config) : nullptr};
}

}  // namespace

// Keys that were turned by the angles of a shorter sequence could not be kept.
std::vector<LayerStep> steps_of_llama(const ModelConfig& config, const architecture::Model& model) {
  std::vector<LayerStep> steps;
  if (architecture::depend_on_length(config, config.context)) return steps;
  for (const architecture::Layer& layer : model) {
    LayerStep& step = steps.emplace_back();
    if (layer.kind != "attention_out") continue;
    const Llama llama = llama_of(config, /*turns=*/true);
    step.keeps = llama.heads;
    step.forward = std::bind_front(&Llama::attention_step, llama);
  }
  return steps;
}

Forward forward_of_llama(const ModelConfig& config, const architecture::Layer& layer) {
  return forward_of_kind<Llama>(llama_of(config, layer.kind == "attention_out"), layer,
                                {{"embedding", &Llama::embedding},
                                 {"attention_in", &Llama::norm_and_product},
                                 {"attention_out", &Llama::attention_out},
                                 {"mlp_up", &Llama::norm_and_product},
                                 {"mlp_activation", &Llama::mlp_activation},
                                 {"mlp_down", &Llama::mlp_down},
                                 {"head", &Llama::head}});
}

}  // namespace twobw::models
