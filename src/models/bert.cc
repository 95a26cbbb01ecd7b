// The forwards of the layers that architecture/bert.cc describes.
#include <map>

#include "architecture/heads.h"
#include "base/error.h"
#include "models/model.h"
#include "models/ops.h"
#include "models/sequence_head.h"

namespace twobw::models {
namespace {

using at::Tensor;

struct Bert {
  using Parameters = std::span<const Tensor>;

  int heads;
  double dropout, norm_eps;
  ModelHead tells;

  Tensors embedding(Parameters p, const Tensors&, const Pass& pass) const {
    const Tensor& types = pass.batch[Field::TokenTypes];
    const Tensor sum = ops::embed(p[0], p[1], pass.batch[Field::Tokens]) + ops::embedding(p[2], types);
    return {ops::dropout(ops::layer_norm(sum, p[3], p[4], norm_eps), dropout, pass, 0)};
  }

  // The first half of either branch: a product, and the residual stream besides.
  Tensors product(Parameters p, const Tensors& inputs, const Pass&) const {
    const auto [out, stream] = ops::linear_and_stream(inputs[0], p[0], p[1]);
    return {out, stream};
  }

  Tensors attention_out(Parameters p, const Tensors& inputs, const Pass& pass) const {
    const Tensor& lengths = pass.batch[Field::Lengths];
    const Tensor mixed = ops::full_attention(inputs[0], heads, lengths, dropout, pass, 0);
    return {end_branch(inputs[1], mixed, p, pass, 1)};
  }

  Tensors mlp_activation(Parameters, const Tensors& inputs, const Pass&) const {
    return {ops::erf_gelu(inputs[0]), inputs[1]};
  }

  Tensors mlp_down(Parameters p, const Tensors& inputs, const Pass& pass) const {
    return {end_branch(inputs[1], inputs[0], p, pass, 0)};
  }

  Tensors transform(Parameters p, const Tensors& inputs, const Pass&) const {
    return {ops::layer_norm(ops::erf_gelu(ops::linear(inputs[0], p[0], p[1])), p[2], p[3], norm_eps)};
  }

  Tensors head(Parameters p, const Tensors& inputs, const Pass& pass) const {
    if (architecture::tells_of_sequences(tells)) return {of_first_token(p, inputs[0], pass)};
    if (!pass.batch[Field::Targets].defined()) return {ops::linear(inputs[0], p[0], p[1])};
    return {ops::head_loss(inputs[0], p[0], p[1], pass.batch[Field::Targets], pass.batch[Field::LossScale],
                           pass.room)};
  }

 private:
  // Its last product, with dropout, onto the stream x, and the norm. `p` is weight and bias of both.
  Tensor end_branch(const Tensor& x, const Tensor& inner, Parameters p, const Pass& pass, int site) const {
    const bool drops = dropout != 0.0 && pass.training;
    const Tensor sum = drops ? x + ops::dropout(ops::linear(inner, p[0], p[1]), dropout, pass, site)
                             : ops::linear_add(inner, p[0], p[1], x);
    return ops::layer_norm(sum, p[2], p[3], norm_eps);
  }

  Tensor of_first_token(Parameters p, const Tensor& x, const Pass& pass) const {
    // A copy, so that the other tokens need not be kept.
    const Tensor first = x.select(1, 0).contiguous();
    const Tensor pooled = at::tanh(ops::linear(first, p[0], p[1]));
    return sequence_head(tells, ops::dropout(pooled, dropout, pass, 0), p[2], p[3], pass);
  }
};

}  // namespace

Forward forward_of_bert(const ModelConfig& config, const architecture::Layer& layer) {
  using Of = Tensors (Bert::*)(Bert::Parameters, const Tensors&, const Pass&) const;
  static const std::map<std::string, Of> by_kind = {
      {"embedding", &Bert::embedding},           {"attention_in", &Bert::product},
      {"attention_out", &Bert::attention_out},   {"mlp_up", &Bert::product},
      {"mlp_activation", &Bert::mlp_activation}, {"mlp_down", &Bert::mlp_down},
      {"transform", &Bert::transform},           {"head", &Bert::head}};
  const auto found = by_kind.find(layer.kind);
  TWOBW_ASSERT(found != by_kind.end(), "no forward for a {} of bert", layer.kind);
  const Bert bert{.heads = config.heads,
                  .dropout = config.dropout,
                  .norm_eps = config.norm_eps,
                  .tells = architecture::head_of(config)};
  return [bert, forward = found->second](Bert::Parameters p, const Tensors& inputs, const Pass& pass) {
    return (bert.*forward)(p, inputs, pass);
  };
}

}  // namespace twobw::models
