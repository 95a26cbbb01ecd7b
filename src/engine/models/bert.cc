// The forwards of the layers that planning/architecture/bert.cc describes.
#include "engine/models/model.h"
#include "engine/models/ops.h"
#include "planning/architecture/families.h"

namespace twobw::models {
namespace {

struct Bert {
  using Parameters = std::span<const Tensor>;

  int heads;
  double dropout, norm_eps;
  ModelHead tells;
  bool next_sentence;

  Tensors embedding(Parameters p, const Tensors&, const MicrobatchContext& pass) const {
    const Tensor& types = pass.batch[Field::TokenTypes];
    const Tensor sum = ops::embed(p[0], p[1], pass.batch[Field::Tokens]) + ops::embedding(p[2], types);
    return {ops::dropout(ops::layer_norm(sum, p[3], p[4], norm_eps), dropout, pass, 0)};
  }

  // The first half of either branch: a product, and the residual stream.
  Tensors product(Parameters p, const Tensors& inputs, const MicrobatchContext&) const {
    const auto [out, stream] = ops::linear_and_stream(inputs[0], p[0], p[1]);
    return {out, stream};
  }

  Tensors attention_out(Parameters p, const Tensors& inputs, const MicrobatchContext& pass) const {
    const Tensor& lengths = pass.batch[Field::Lengths];
    const Tensor mixed = ops::full_attention(inputs[0], heads, lengths, dropout, pass, 0);
    return {end_branch(inputs[1], mixed, p, pass, 1)};
  }

  Tensors mlp_activation(Parameters, const Tensors& inputs, const MicrobatchContext&) const {
    return {ops::erf_gelu(inputs[0]), inputs[1]};
  }

  Tensors mlp_down(Parameters p, const Tensors& inputs, const MicrobatchContext& pass) const {
    return {end_branch(inputs[1], inputs[0], p, pass, 0)};
  }

  Tensors transform(Parameters p, const Tensors& inputs, const MicrobatchContext&) const {
    // Before the rest, so that its gradient, as large as all tokens', is made after theirs.
    Tensors first;
    if (next_sentence) first.push_back(first_token(inputs[0]));
    Tensors out = {ops::layer_norm(ops::erf_gelu(ops::linear(inputs[0], p[0], p[1])), p[2], p[3], norm_eps)};
    out.insert(out.end(), first.begin(), first.end());
    return out;
  }

  Tensors head(Parameters p, const Tensors& inputs, const MicrobatchContext& pass) const {
    if (architecture::is_sequence_head(tells)) return {of_first_token(p, inputs[0], pass)};
    const Tensor of_tokens = token_head(inputs[0], p[0], p[1], pass);
    if (!next_sentence) return {of_tokens};
    const Tensor pooled = pool(inputs[1], p[2], p[3]);
    if (!pass.batch[Field::Targets].defined()) return {of_tokens, ops::linear(pooled, p[4], p[5])};
    return {of_tokens + ops::head_loss(pooled, p[4], p[5], pass.batch[Field::Labels],
                                       pass.batch[Field::LabelScale], pass.room, pass.loss_scale)};
  }

 private:
  // Its last product, with dropout, onto the stream x, and the norm. `p` is weight and bias of both.
  Tensor end_branch(const Tensor& x, const Tensor& inner, Parameters p, const MicrobatchContext& pass,
                    int site) const {
    const bool drops = dropout != 0.0 && pass.training;
    const Tensor sum = drops ? ops::dropout_add(ops::linear(inner, p[0], p[1]), x, dropout, pass, site)
                             : ops::linear_add(inner, p[0], p[1], x);
    return ops::layer_norm(sum, p[2], p[3], norm_eps);
  }

  // A copy, so that the other tokens need not be kept.
  static Tensor first_token(const Tensor& x) { return x.select(1, 0).contiguous(); }

  static Tensor pool(const Tensor& first, const Tensor& weight, const Tensor& bias) {
    return at::tanh(ops::linear(first, weight, bias));
  }

  Tensor of_first_token(Parameters p, const Tensor& x, const MicrobatchContext& pass) const {
    const Tensor pooled = pool(first_token(x), p[0], p[1]);
    return sequence_head(tells, ops::dropout(pooled, dropout, pass, 0), p[2], p[3], pass);
  }
};

}  // namespace

Forward forward_of_bert(const ModelConfig& config, const architecture::Layer& layer) {
  const Bert bert{.heads = config.heads,
                  .dropout = config.dropout,
                  .norm_eps = config.norm_eps,
                  .tells = architecture::head_of(config),
                  .next_sentence = config.next_sentence};
  return forward_of_kind<Bert>(bert, layer,
                               {{"embedding", &Bert::embedding},
                                {"attention_in", &Bert::product},
                                {"attention_out", &Bert::attention_out},
                                {"mlp_up", &Bert::product},
                                {"mlp_activation", &Bert::mlp_activation},
                                {"mlp_down", &Bert::mlp_down},
                                {"transform", &Bert::transform},
                                {"head", &Bert::head}});
}

}  // namespace twobw::models
