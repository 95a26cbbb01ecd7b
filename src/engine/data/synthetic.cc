#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/base/random.h"
#include "engine/data/sources.h"
#include "planning/architecture/families.h"

namespace twobw::data {
namespace {

class SyntheticTokens {
 public:
  explicit SyntheticTokens(int vocab) : vocab_(vocab) {}

  std::int64_t token_for(std::uint64_t key) const { return static_cast<std::int64_t>(key % vocab_); }
  std::int64_t follow(std::int64_t token, std::uint64_t key) const {
    return key % 4 == 0 ? token_for(key >> 2) : (token * 31 + 7) % vocab_;
  }
  std::string describe() const { return fmt::format("tokens below {}", vocab_); }

 private:
  std::uint64_t vocab_;
};

// A source whose batches follow from a key.
class KeyedSource : public Source {
 public:
  Batch random(const Draw& draw, int b, int length, BatchFields fields) const override {
    return make(draw.key, b, length, fields);
  }

  Batch sequential(std::int64_t index, int b, int length, BatchFields fields) const override {
    return make(random_key(hash_text("validation"), index), b, length, fields);
  }

 private:
  virtual Batch make(std::uint64_t key, int b, int length, BatchFields fields) const = 0;
};

class SyntheticSource final : public KeyedSource {
 public:
  explicit SyntheticSource(int vocab) : tokens_(vocab) {}

  std::string describe() const override { return "synthetic " + tokens_.describe(); }

 private:
  Batch make(std::uint64_t key, int b, int length, BatchFields fields) const override {
    return windows(b, length, fields, [&](int row, std::int64_t* to, int offset) {
      std::int64_t token = tokens_.token_for(random_key(key, row));
      for (int i = 0; i < length; ++i) {
        const std::int64_t next = tokens_.follow(token, random_key(key, row, i));
        to[i] = offset == 0 ? token : next;
        token = next;
      }
    });
  }

  SyntheticTokens tokens_;
};

// Every kAnew-th token is random, so that no token depends on many before it.
class SyntheticStream final : public TokenStream {
 public:
  explicit SyntheticStream(int vocab) : tokens_(vocab) {}

  std::int64_t tokens() const override { return std::int64_t{1} << 40; }

  void read(std::int64_t from, std::span<std::int64_t> to) const override {
    std::int64_t token = 0;
    for (std::int64_t i = from / kAnew * kAnew; i < from + std::ssize(to); ++i) {
      const std::uint64_t key = random_key(hash_text("synthetic"), i);
      token = i % kAnew == 0 ? tokens_.token_for(key) : tokens_.follow(token, key);
      if (i >= from) to[static_cast<std::size_t>(i - from)] = token;
    }
  }

  bool has_documents() const override { return true; }
  std::int64_t document_end(std::int64_t token) const override { return (token / kDocument + 1) * kDocument; }

  std::string describe() const override { return tokens_.describe(); }

 private:
  static constexpr std::int64_t kAnew = 64, kDocument = 21;
  SyntheticTokens tokens_;
};

// A sequence with all fields.
struct SyntheticSequence {
  std::vector<std::int64_t> tokens, targets, types;
  std::int64_t length = 0, label = 0;
  double value = 0;
};

class SyntheticSequences final : public KeyedSource {
 public:
  explicit SyntheticSequences(const ModelConfig& model)
      : masks_(architecture::head_of(model) == ModelHead::MaskedLm),
        model_(model),
        text_(masks_ ? std::max(model.vocab - 1, 1) : model.vocab) {}

  BatchFields fields() const override {
    return {Field::Tokens, Field::Targets, Field::TokenTypes, Field::Lengths, Field::Labels, Field::Values};
  }

  bool is_dense() const override { return false; }

  std::string describe() const override {
    return fmt::format("synthetic sequences of tokens below {}{}", model_.vocab, masks_ ? ", masked" : "");
  }

 private:
  Batch make(std::uint64_t key, int b, int length, BatchFields fields) const override {
    const Batch batch = make_batch(fields, this->fields(), b, length);
    for (int row = 0; row < b; ++row) put(make_sequence(random_key(key, row), length), BatchRow(batch, row));
    return batch;
  }

  // At least half a context long; two token types, cut at random; one token in seven masked.
  SyntheticSequence make_sequence(std::uint64_t key, int context) const {
    SyntheticSequence made{.tokens = std::vector<std::int64_t>(context),
                           .targets = std::vector<std::int64_t>(context, -1),
                           .types = std::vector<std::int64_t>(context)};
    made.length = context;
    if (model_.padding) made.length -= below(random_key(key, 1), context / 2 + 1);
    const std::int64_t cut = below(random_key(key, 2), made.length + 1);
    std::int64_t token = text_.token_for(key);
    made.label = token % model_.num_labels;
    made.value = static_cast<double>(token) / static_cast<double>(model_.vocab);
    for (std::int64_t i = 0; i < made.length; ++i) {
      const bool masked = masks_ && below(random_key(key, 3, i), 7) == 0;
      if (masked) made.targets[i] = token;
      made.tokens[i] = masked ? model_.vocab - 1 : token;
      made.types[i] = i < cut ? 0 : model_.token_types - 1;
      token = text_.follow(token, random_key(key, 4, i));
    }
    return made;
  }

  static void put(const SyntheticSequence& made, const BatchRow& row) {
    row.write(Field::Tokens, made.tokens, 0);
    row.write(Field::Targets, made.targets, 0);
    row.write(Field::TokenTypes, made.types, 0);
    std::ranges::fill(row[Field::Lengths], made.length);
    std::ranges::fill(row[Field::Labels], made.label);
    std::ranges::fill(row.numbers(Field::Values), made.value);
  }

  static std::int64_t below(std::uint64_t key, std::int64_t bound) {
    return static_cast<std::int64_t>(key % static_cast<std::uint64_t>(bound));
  }

  bool masks_;
  ModelConfig model_;
  SyntheticTokens text_;  // all tokens but the mask, which is the last
};

}  // namespace

std::unique_ptr<Source> make_synthetic(int vocab) {
  return std::make_unique<SyntheticSource>(vocab);
}

std::unique_ptr<TokenStream> make_synthetic_stream(int vocab) {
  return std::make_unique<SyntheticStream>(vocab);
}

std::unique_ptr<Source> make_synthetic_sequences(const ModelConfig& model) {
  return std::make_unique<SyntheticSequences>(model);
}

}  // namespace twobw::data
