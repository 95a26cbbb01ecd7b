// Building blocks of model families: parameters, layers, and checks of configuration keys.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/config.h"
#include "planning/architecture/families.h"
#include "planning/architecture/layer.h"

namespace twobw::architecture {

inline constexpr double kStd = 0.02;  // standard deviation of initial weights

// Embedding or head.
inline Parameter matrix(std::string name, std::int64_t rows, std::int64_t columns) {
  return {.name = std::move(name), .shape = {rows, columns}, .init_std = kStd};
}

// One or several stacked matrices between hidden activations.
inline Parameter hidden(std::string name, const std::vector<std::int64_t>& rows, std::int64_t columns,
                        double std = kStd) {
  return {.name = std::move(name),
          .shape = {std::accumulate(rows.begin(), rows.end(), std::int64_t{0}), columns},
          .init_std = std,
          .matrices = rows};
}

inline Parameter bias(std::string name, std::int64_t size) {
  return {.name = std::move(name), .shape = {size}, .decay = false};
}

inline Parameter gain(std::string name, std::int64_t size) {
  return {.name = std::move(name), .shape = {size}, .init_mean = 1.0, .decay = false};
}

// `work`: member function of a class that is constructed from a model and an extent, for one sequence.
template <typename FamilyWork>
Layer layer(const ModelConfig& config, const std::string& kind, const std::vector<Parameter>& parameters,
            Work (FamilyWork::*work)() const, BatchFields takes = {}) {
  return {
      .kind = kind, .parameters = parameters, .takes = takes, .work = [config, work](const Extent& extent) {
        return (FamilyWork(config, extent).*work)().times(extent.sequences);
      }};
}

inline constexpr double kLayerNormStatistics = 2;  // mean and deviation of every token, saved by a layer norm

// Work of a transformer for one sequence: sizes, and a decoder's output heads behind a final norm.
class TransformerWork {
 public:
  // `statistics`: numbers per token that a norm saves.
  TransformerWork(const ModelConfig& model, const Extent& extent, double statistics);

  // Norm, logits and loss. The forward leaves the gradient of the logits in their place.
  Work head() const;
  // Norm, logits and loss of the last token alone.
  Work sequence_head() const;

 protected:
  double bytes(double width) const { return t_ * width * element_; }
  double stream() const { return bytes(w_); }  // hidden states
  double statistics() const { return statistics_ * kStatisticBytes * t_; }
  double product(double in, double out) const { return 2 * t_ * in * out; }
  // Dropout reads and writes states. It keeps neither mask nor input.
  double dropped() const { return dropout_ > 0 ? 1 : 0; }
  double drop_moves() const { return 2 * dropped(); }

  bool documents_;
  double dropout_, statistics_, element_, t_, w_, v_, outputs_;
};

// Matrix of the token logits, tied or not.
inline Parameter language_output(const ModelConfig& config) {
  Parameter output = matrix("head.weight", config.vocab, config.width);
  if (config.tied) output.tied_to = "embedding.tokens";
  return output;
}

// Fields of the loss of a sequence head.
inline BatchFields sequence_loss(const ModelConfig& config) {
  return config.head == ModelHead::Classification ? kSequenceLoss : kRegressionLoss;
}

// Adds the output head of a decoder; `norm` has the parameters of the final norm.
template <typename FamilyWork>
void add_decoder_head(Model& model, const ModelConfig& config, std::vector<Parameter> norm) {
  if (is_sequence_head(config.head)) {
    norm.push_back(matrix("head.weight", outputs_of(config), config.width));
    model.push_back(layer<FamilyWork>(config, "head", norm, &FamilyWork::sequence_head,
                                      sequence_loss(config) | BatchFields{Field::Lengths}));
  } else {
    norm.push_back(language_output(config));
    model.push_back(layer<FamilyWork>(config, "head", norm, &FamilyWork::head, kTokenLoss));
  }
  model.back().gradients_in_forward = true;
}

// Fields that separate the documents of a sequence, with model.reset_documents.
inline BatchFields document_fields(const ModelConfig& config) {
  return config.reset_documents ? BatchFields{Field::Positions} : BatchFields{};
}

// Temporary bytes of attention within documents on GPUs: the mask, as numbers and as booleans.
inline double document_mask_bytes(double context, double element) {
  return context * context * (element + 1);
}

// Throws InputError for the first family-specific key that is set and not in `own`, the keys under model of
// config.family.
void refuse_foreign_keys(const ModelConfig& config, std::initializer_list<std::string_view> own);

// Throws InputError unless the head is `language` or a sequence head.
void check_head(const ModelConfig& config, ModelHead language);

// Throws InputError if model.reset_documents does not apply.
void check_documents(const ModelConfig& config);

}  // namespace twobw::architecture
