// The layers of a gMLP as values, for the planner and for the layout of the weights. A block is three layers,
// so that a cut may fall inside it; between them travel the inner activations and the residual stream.
#include <cmath>
#include <cstdint>
#include <string>

#include "core/base/error.h"
#include "gmlp.h"
#include "planning/architecture/families.h"
#include "planning/architecture/family_parts.h"

namespace gmlp {
namespace {

using twobw::ModelConfig;
using twobw::architecture::Extent;
using twobw::architecture::Field;
using twobw::architecture::Model;
using twobw::architecture::Parameter;
using twobw::architecture::Work;

// Outputs of the product up; the gate leaves half of them.
std::int64_t inner_size(const ModelConfig& config) {
  return config.hidden > 0 ? config.hidden : 4 * std::int64_t{config.width};
}

void check(const ModelConfig& config) {
  twobw::architecture::refuse_foreign_keys(config, {"hidden"});
  if (twobw::architecture::head_of(config) != twobw::ModelHead::CausalLm)
    twobw::fail_input("model.head is {}; where model.family is gmlp it must be causal_lm", name(config.head));
  if (config.dropout > 0)
    twobw::fail_input("model.dropout is {}; it must be 0 where model.family is gmlp", config.dropout);
  if (inner_size(config) % 2 != 0)
    twobw::fail_input("model.hidden is {}; it must be even where model.family is gmlp", config.hidden);
}

// Operations and bytes for one sequence, one function per layer. planning/architecture/layer.h explains the
// fields of Work.
class GmlpWork {
 public:
  GmlpWork(const ModelConfig& model, const Extent& extent)
      : element_(extent.element),
        t_(extent.context),
        w_(model.width),
        f_(static_cast<double>(inner_size(model))),
        v_(model.vocab) {}

  Work embedding() const {
    Work work;
    work.element_bytes = 2 * stream();
    work.saved_bytes = work.kept = work.output = work.working = stream();
    return work;
  }

  // Norm and product; also passes the residual stream on.
  Work up() const {
    Work work;
    work.matrix_flops = product(w_, f_);
    work.matrix_bytes = stream() + inner();
    work.element_bytes = 2 * stream();
    work.saved_bytes = statistics() + stream() + inner();  // normed; GELU's input
    work.kept = inner();
    work.output = stream() + inner();
    work.working = 2 * stream() + inner();  // gradients: of both outputs, of normed
    return work;
  }

  // GELU, the norm of the second half, the product over positions, and that with the first half.
  Work gate() const {
    Work work;
    work.matrix_flops = 2 * t_ * t_ * f_ / 2;
    work.matrix_bytes = inner() + places();
    work.element_bytes = 5 * inner() + 2 * places();
    // GELU's output; the second half in one piece, normed, mixed; the triangle; the product.
    work.saved_bytes = inner() + 4 * inner() / 2 + statistics() + places();
    work.kept = inner() / 2;
    work.output = stream() + inner() / 2;
    work.working = stream() + 2 * inner();  // gradients: of both outputs, of both halves, of GELU's input
    return work;
  }

  // The product back to the width, and the sum with the residual stream.
  Work down() const {
    Work work;
    work.matrix_flops = product(f_ / 2, w_);
    work.matrix_bytes = stream() + inner() / 2;
    work.element_bytes = 3 * stream();
    work.saved_bytes = work.kept = work.output = stream();  // the sum
    work.working = stream() + inner() / 2;                  // gradients: of the sum, of the product's input
    return work;
  }

  // Norm, logits and loss. The forward leaves the gradient of the logits in their place.
  Work head() const {
    Work work;
    const double logits = t_ * v_ * element_;
    work.matrix_flops = product(w_, v_);
    work.matrix_bytes = stream() + logits;
    work.element_bytes = 2 * stream() + 4 * logits;
    work.saved_bytes = statistics() + stream() + logits;
    work.working = stream();
    return work;
  }

 private:
  double stream() const { return t_ * w_ * element_; }  // bytes of the hidden states
  double inner() const { return t_ * f_ * element_; }
  double places() const { return t_ * t_ * element_; }  // of a matrix over positions
  double statistics() const { return 2 * twobw::architecture::kStatisticBytes * t_; }
  double product(double in, double out) const { return 2 * t_ * in * out; }

  double element_, t_, w_, f_, v_;
};

void add_block(Model& model, const ModelConfig& config, int block) {
  namespace of = twobw::architecture;
  const std::string at = "blocks." + std::to_string(block) + ".";
  const std::int64_t w = config.width, f = inner_size(config), t = config.context;
  const double std =
      of::kStd / std::sqrt(1.0 * config.layers);  // of products that end on the residual stream
  model.push_back(of::layer(config, "gmlp_up",
                            {of::gain(at + "norm.weight", w), of::bias(at + "norm.bias", w),
                             of::hidden(at + "up.weight", {f}, w), of::bias(at + "up.bias", f)},
                            &GmlpWork::up));
  // Nearly u * 1 at first, as in the paper: a block begins as a plain MLP.
  Parameter shift = of::gain(at + "gate.bias", t);
  model.push_back(of::layer(config, "gmlp_gate",
                            {of::gain(at + "gate.norm.weight", f / 2), of::bias(at + "gate.norm.bias", f / 2),
                             of::matrix(at + "gate.weight", t, t), shift},
                            &GmlpWork::gate));
  model.push_back(of::layer(config, "gmlp_down",
                            {of::hidden(at + "down.weight", {w}, f / 2, std), of::bias(at + "down.bias", w)},
                            &GmlpWork::down));
}

}  // namespace

Model describe(const ModelConfig& config) {
  namespace of = twobw::architecture;
  check(config);
  const std::int64_t w = config.width;
  Model model;
  model.push_back(of::layer(config, "gmlp_embedding", {of::matrix("embedding.tokens", config.vocab, w)},
                            &GmlpWork::embedding, {Field::Tokens}));
  for (int block = 0; block < config.layers; ++block) add_block(model, config, block);
  model.push_back(
      of::layer(config, "gmlp_head",
                {of::gain("head.norm.weight", w), of::bias("head.norm.bias", w), of::language_output(config)},
                &GmlpWork::head, of::kTokenLoss));
  model.back().gradients_in_forward = true;  // head_loss adds to them
  return model;
}

}  // namespace gmlp
