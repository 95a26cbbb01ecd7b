// Building blocks of sources.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/data/batch.h"
#include "engine/data/stream.h"
#include "engine/data/tokens.h"
#include "text/tokenizer/tokenizer.h"

namespace twobw::data {

// A sequence's row in the tensors of a batch; empty for fields that the batch lacks.
class BatchRow {
 public:
  BatchRow(const Batch& batch, int row) : batch_(batch), row_(row) {}

  std::span<std::int64_t> operator[](Field field) const { return part<std::int64_t>(field); }
  std::span<double> numbers(Field field) const { return part<double>(field); }  // Field::Values
  // Writes `values`, then `rest` up to the end.
  template <typename Values>
  void write(Field field, const Values& values, std::int64_t rest) const {
    const auto to = (*this)[field];
    if (!to.empty()) std::ranges::fill(std::ranges::copy(values, to.begin()).out, to.end(), rest);
  }

 private:
  template <typename T>
  std::span<T> part(Field field) const {
    const at::Tensor& tensor = batch_[field];
    if (!tensor.defined()) return {};
    const std::int64_t width = tensor.numel() / tensor.size(0);
    return {tensor.mutable_data_ptr<T>() + row_ * width, static_cast<std::size_t>(width)};
  }

  const Batch& batch_;
  std::int64_t row_;
};

// Numbered examples, each a sequence of a batch.
class Examples {
 public:
  virtual ~Examples() = default;
  virtual std::int64_t count() const = 0;  // at least 1
  virtual BatchFields fields() const = 0;  // that write() fills
  // Fills a row. `key` seeds its random choices. Thread-safe.
  virtual void write(std::int64_t example, std::uint64_t key, const BatchRow& row) const = 0;
  // See Source.
  virtual bool is_dense() const = 0;
  virtual bool varies() const { return false; }
  // Tokens without padding; only if varies().
  virtual std::int64_t length(std::int64_t example) const { return 0; }
  virtual std::string describe() const = 0;  // after its path: "(3 rows)"
};

// Windows of a text, at random positions in training. `name`: the text's path in descriptions.
std::unique_ptr<Source> draw_at_random(std::string name, std::unique_ptr<TokenStream> text, int length);

// Consecutive windows with next tokens as targets. With `documents_apart`, positions restart in every
// document and no target crosses into the next; the text must have documents.
std::unique_ptr<Examples> next_token_windows(std::unique_ptr<TokenStream> text, int length,
                                             bool documents_apart = false);

// Windows with masked tokens (masking.h), between [CLS] and [SEP] if there are any. Throws InputError.
std::unique_ptr<Examples> open_masked(const std::string& key, const std::string& path, const Config& config,
                                      const tokenizer::Tokenizer& tokenizer);

// Masked pairs for next-sentence prediction: parts of one document (0) or of two (1). Throws InputError.
std::unique_ptr<Examples> open_sentence_pairs(const std::string& key, const std::string& path,
                                              const Config& config, const tokenizer::Tokenizer& tokenizer);

// Texts or pairs with a class or a number, from a tsv or jsonl file, encoded into memory: [CLS] text [SEP]
// second text [SEP], or the tokenizer's own special tokens. Throws InputError.
std::unique_ptr<Examples> open_labelled(const std::string& key, const std::string& path, const Config& config,
                                        const tokenizer::Tokenizer& tokenizer);

struct WeightedExamples {
  std::string name;  // path, for descriptions
  std::unique_ptr<Examples> examples;
  double weight = 1;
};

// Sets of examples in training order (order.h): each shuffled per epoch and blended by weight; `bucket` above
// 0 groups sequences by length. All sets have the same fields.
std::unique_ptr<Source> make_dataset(std::vector<WeightedExamples> parts, int bucket = 0);

// Endless synthetic text: a token follows from the one before by a fixed map or, one time in four, is random.
std::unique_ptr<Source> make_synthetic(int vocab);

// Synthetic sequences for the other heads: masked tokens, and a class and a number that follow from the first
// token; padded if the model has padding. The mask is the last token of the vocabulary.
std::unique_ptr<Source> make_synthetic_sequences(const ModelConfig& model);

}  // namespace twobw::data
