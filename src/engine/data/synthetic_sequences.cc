#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/base/random.h"
#include "engine/data/sources.h"
#include "planning/architecture/families.h"

namespace twobw::data {
namespace {

// One sequence with all that may be asked of it.
struct MadeUpSequence {
  std::vector<std::int64_t> tokens, targets, types;
  std::int64_t length = 0, label = 0;
  double value = 0;
};

class SyntheticSequences final : public Source {
 public:
  explicit SyntheticSequences(const ModelConfig& model)
      : masks_(architecture::head_of(model) == ModelHead::MaskedLm),
        model_(model),
        text_vocab_(masks_ ? std::max(model.vocab - 1, 1) : model.vocab) {}

  Batch random(const Draw& draw, int b, int length, BatchFields fields) const override {
    return made_up(draw.key, b, length, fields);
  }

  Batch sequential(std::int64_t index, int b, int length, BatchFields fields) const override {
    return made_up(random_key(hash_text("validation"), index), b, length, fields);
  }

  BatchFields fields() const override {
    return {Field::Tokens, Field::Targets, Field::TokenTypes, Field::Lengths, Field::Labels, Field::Values};
  }

  bool is_dense() const override { return false; }

  std::string describe() const override {
    return fmt::format("synthetic sequences of tokens below {}{}", model_.vocab, masks_ ? ", masked" : "");
  }

 private:
  Batch made_up(std::uint64_t key, int b, int length, BatchFields fields) const {
    Batch batch;
    for (const Field field : architecture::kFields) {
      if (fields.has(field) && this->fields().has(field)) batch[field] = make_field(field, b, length);
    }
    for (int row = 0; row < b; ++row) put(made_up_sequence(random_key(key, row), length), row, batch);
    return batch;
  }

  // At least half of the context; two parts of two types, cut anywhere; one token in seven masked.
  MadeUpSequence made_up_sequence(std::uint64_t key, int context) const {
    MadeUpSequence made{.tokens = std::vector<std::int64_t>(context),
                        .targets = std::vector<std::int64_t>(context, -1),
                        .types = std::vector<std::int64_t>(context)};
    made.length = context;
    if (model_.padding) made.length -= below(random_key(key, 1), context / 2 + 1);
    const std::int64_t cut = below(random_key(key, 2), made.length + 1);
    std::int64_t token = below(key, text_vocab_);
    made.label = token % model_.labels;
    made.value = static_cast<double>(token) / static_cast<double>(model_.vocab);
    for (std::int64_t i = 0; i < made.length; ++i) {
      const bool masked = masks_ && below(random_key(key, 3, i), 7) == 0;
      if (masked) made.targets[i] = token;
      made.tokens[i] = masked ? model_.vocab - 1 : token;
      made.types[i] = i < cut ? 0 : model_.token_types - 1;
      token = follow(token, random_key(key, 4, i));
    }
    return made;
  }

  static void put(const MadeUpSequence& made, int row, const Batch& batch) {
    const auto copy = [&](Field field, const std::vector<std::int64_t>& from) {
      if (!batch[field].defined()) return;
      std::ranges::copy(from, batch[field].mutable_data_ptr<std::int64_t>() + row * std::ssize(from));
    };
    copy(Field::Tokens, made.tokens);
    copy(Field::Targets, made.targets);
    copy(Field::TokenTypes, made.types);
    copy(Field::Lengths, {made.length});
    copy(Field::Labels, {made.label});
    if (batch[Field::Values].defined()) batch[Field::Values].mutable_data_ptr<double>()[row] = made.value;
  }

  static std::int64_t below(std::uint64_t key, std::int64_t bound) {
    return static_cast<std::int64_t>(key % static_cast<std::uint64_t>(bound));
  }
  std::int64_t follow(std::int64_t token, std::uint64_t key) const {
    const auto next = static_cast<std::uint64_t>(token) * 31 + 7;
    return below(key % 4 == 0 ? key >> 2 : next, text_vocab_);
  }

  bool masks_;
  ModelConfig model_;
  std::int64_t text_vocab_;  // tokens but for the mask, which is the last
};

}  // namespace

std::unique_ptr<Source> make_synthetic_sequences(const ModelConfig& model) {
  return std::make_unique<SyntheticSequences>(model);
}

}  // namespace twobw::data
