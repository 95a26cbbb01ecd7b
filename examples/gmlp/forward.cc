// The forwards of the layers. Products, norms and activations are the library's, which also accumulate the
// gradients of their parameters; the gate is written with LibTorch's own operators, whose gradients autograd
// finds.
#include <map>
#include <string>

#include "core/base/error.h"
#include "engine/models/ops.h"
#include "gmlp.h"

namespace gmlp {
namespace {

namespace ops = twobw::models::ops;
using at::Tensor;
using twobw::models::Field;
using twobw::models::MicrobatchContext;
using twobw::models::Tensors;
using Parameters = std::span<const Tensor>;

Tensors embedding(Parameters p, const Tensors&, const MicrobatchContext& pass) {
  return {ops::embedding(p[0], pass.batch[Field::Tokens])};
}

Tensors up(Parameters p, const Tensors& x, const MicrobatchContext&) {
  const auto [normed, stream] = ops::norm_and_stream(x[0], p[0], p[1]);
  return {ops::linear(normed, p[2], p[3]), stream};
}

// A sequence may be shorter than the context, as where a text is continued: then the first positions count.
Tensors gate(Parameters p, const Tensors& x, const MicrobatchContext&) {
  const std::int64_t length = x[0].size(1), half = x[0].size(2) / 2;
  const Tensor inner = ops::gelu(x[0]);
  const Tensor u = inner.narrow(2, 0, half), v = inner.narrow(2, half, half).contiguous();
  const Tensor triangle = at::tril(p[2].narrow(0, 0, length).narrow(1, 0, length));
  const Tensor mixed = at::matmul(triangle, ops::layer_norm(v, p[0], p[1]));
  return {u * (mixed + p[3].narrow(0, 0, length).unsqueeze(1)), x[1]};
}

Tensors down(Parameters p, const Tensors& x, const MicrobatchContext&) {
  return {ops::linear_add(x[0], p[0], p[1], x[1])};
}

// Without targets it gives logits.
Tensors head(Parameters p, const Tensors& x, const MicrobatchContext& pass) {
  const Tensor normed = ops::layer_norm(x[0], p[0], p[1]);
  const Tensor targets = pass.batch[Field::Targets];
  if (!targets.defined()) return {ops::linear(normed, p[2], {})};
  return {ops::head_loss(normed, p[2], {}, targets, pass.batch[Field::LossScale], pass.room)};
}

}  // namespace

twobw::models::Forward forward_of(const twobw::ModelConfig&, const twobw::architecture::Layer& layer) {
  using Of = Tensors (*)(Parameters, const Tensors&, const MicrobatchContext&);
  static const std::map<std::string, Of> by_kind = {{"gmlp_embedding", embedding},
                                                    {"gmlp_up", up},
                                                    {"gmlp_gate", gate},
                                                    {"gmlp_down", down},
                                                    {"gmlp_head", head}};
  const auto found = by_kind.find(layer.kind);
  TWOBW_ASSERT(found != by_kind.end(), "no forward for a {} of gmlp", layer.kind);
  return found->second;
}

}  // namespace gmlp
