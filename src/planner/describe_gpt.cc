// What the layers of models/gpt.cc compute and keep, for one sequence of T tokens.
// tests/models/modelled_test.cc holds the parameters against the layers themselves, and
// tests/train/profiler_test.cc the bytes against a profile.
#include <algorithm>

#include "planner/modelled.h"

namespace twobw::planner {
namespace {

constexpr double kFloat = 4;           // of statistics, in any precision
constexpr double kNormStatistics = 2;  // mean and deviation of every token, kept by a layer norm

class Gpt {
 public:
  Gpt(const ModelConfig& model, double element)
      : model_(model),
        element_(element),
        t_(model.context),
        w_(model.width),
        h_(model.heads),
        v_(model.vocab) {}

  // Gathers the rows of tokens and positions, and adds them.
  LayerWork embedding() const {
    LayerWork layer{.kind = "embedding"};
    layer.parameters = (v_ + t_) * w_;
    layer.tied = model_.tied ? v_ * w_ : 0;
    layer.element_bytes = (5 + drop_moves()) * stream();
    layer.stash = (1 + dropped()) * stream();  // the sum
    layer.kept = layer.output = stream();
    layer.working = 3 * stream();  // both summands and the sum
    return layer;
  }

  // Norm and the product that makes queries, keys and values; hands the residual stream on besides.
  LayerWork attention_in() const {
    LayerWork layer{.kind = "attention_in"};
    layer.parameters = 2 * w_ + 3 * w_ * w_ + 3 * w_;
    layer.matrix_flops = product(w_, 3 * w_);
    layer.matrix_bytes = 4 * stream();
    layer.element_bytes = 2 * stream();
    // Queries, keys and values are kept as they are by the fused kernel alone.
    layer.kept = model_.dropout > 0 ? 0 : 3 * stream();
    layer.stash = statistics() + stream() + layer.kept;  // normed
    layer.output = 4 * stream();
    layer.working = 5 * stream();  // gradients: of both outputs, of normed
    return layer;
  }

  // Attention, the product that follows, and the sum with the residual stream.
  LayerWork attention_out() const {
    LayerWork layer{.kind = "attention_out"};
    layer.parameters = w_ * w_ + w_;
    // Scores and mix are products of T x T by the width; half of them lies behind the causal mask.
    layer.matrix_flops = product(w_, w_) + 2 * t_ * t_ * w_;
    layer.matrix_bytes = 6 * stream();
    layer.element_bytes = (3 + drop_moves()) * stream();
    layer.stash =
        (2 + dropped()) * stream() + h_ * t_ * kFloat;  // mixed, the sum; the log of every row's sum
    layer.working = 5 * stream();  // gradients: of the sum, of mixed, of queries, keys and values
    if (model_.dropout > 0) {
      // Without the fused kernel: copies of queries, keys and values, and the matrices of softmax, mask and
      // product.
      const double scores = h_ * t_ * t_ * element_;
      layer.matrix_flops += 2 * t_ * t_ * w_;
      layer.element_bytes += 10 * scores + 6 * stream();
      layer.stash += 3 * stream() + 3 * scores + t_ * t_ - h_ * t_ * kFloat;
      layer.working = std::max(6 * stream(), 2 * (stream() + scores));  // the latter of the scores
    }
    layer.kept = layer.output = stream();
    return layer;
  }

  // Norm and the product to four times the width; hands the residual stream on besides.
  LayerWork mlp_up() const {
    LayerWork layer{.kind = "mlp_up"};
    layer.parameters = 2 * w_ + 4 * w_ * w_ + 4 * w_;
    layer.matrix_flops = product(w_, 4 * w_);
    layer.matrix_bytes = 5 * stream();
    layer.element_bytes = 2 * stream();
    layer.stash = statistics() + (1 + 4) * stream();  // normed; GELU's input
    layer.kept = 4 * stream();
    layer.output = 5 * stream();
    layer.working = 6 * stream();  // gradients: of both outputs, of normed
    return layer;
  }

  // GELU; hands the residual stream on besides.
  LayerWork mlp_activation() const {
    LayerWork layer{.kind = "mlp_activation"};
    layer.element_bytes = 8 * stream();
    layer.stash = layer.kept = 4 * stream();
    layer.output = 5 * stream();
    layer.working = 9 * stream();  // gradients: of both outputs, of GELU's input
    return layer;
  }

  // The product back to the width, and the sum with the residual stream.
  LayerWork mlp_down() const {
    LayerWork layer{.kind = "mlp_down"};
    layer.parameters = 4 * w_ * w_ + w_;
    layer.matrix_flops = product(4 * w_, w_);
    layer.matrix_bytes = 5 * stream();
    layer.element_bytes = (3 + drop_moves()) * stream();
    layer.stash = (1 + dropped()) * stream();  // the sum
    layer.kept = layer.output = stream();
    layer.working = 5 * stream();  // gradients: of the sum, of the product's input
    return layer;
  }

  // Norm, logits and loss. The forward leaves the gradient of the logits in their place.
  LayerWork head() const {
    LayerWork layer{.kind = "head"};
    const double logits = t_ * v_ * element_;
    layer.parameters = 2 * w_ + v_ * w_;
    layer.tied = model_.tied ? v_ * w_ : 0;
    layer.matrix_flops = product(w_, v_);
    layer.matrix_bytes = stream() + logits;
    layer.element_bytes = 2 * stream() + 4 * logits;
    layer.stash = statistics() + stream() + logits;
    layer.working = stream();  // gradient of normed; that of the logits is gone before the next
    return layer;
  }

 private:
  double stream() const { return t_ * w_ * element_; }  // bytes of the hidden states
  double statistics() const { return kNormStatistics * kFloat * t_; }
  double product(double in, double out) const { return 2 * t_ * in * out; }
  // Dropout keeps its mask; it reads states and mask and writes states, and the mask was written before.
  double dropped() const { return model_.dropout > 0 ? 1 : 0; }
  double drop_moves() const { return 4 * dropped(); }

  const ModelConfig& model_;
  double element_, t_, w_, h_, v_;
};

}  // namespace

std::vector<LayerWork> describe_gpt(const ModelConfig& model, double bytes_per_element) {
  const Gpt gpt(model, bytes_per_element);
  std::vector<LayerWork> layers = {gpt.embedding()};
  for (int block = 0; block < model.layers; ++block) {
    for (const LayerWork& layer :
         {gpt.attention_in(), gpt.attention_out(), gpt.mlp_up(), gpt.mlp_activation(), gpt.mlp_down()})
      layers.push_back(layer);
  }
  layers.push_back(gpt.head());
  return layers;
}

}  // namespace twobw::planner
