// Sets of examples in training order, and the opening of a configuration's data.
#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/random.h"
#include "engine/data/masking.h"
#include "engine/data/order.h"
#include "engine/data/sources.h"
#include "planning/architecture/families.h"
#include "text/corpus/configured_tokens.h"
#include "text/tokenizer/tokenizer.h"

namespace twobw::data {
namespace {

std::vector<double> weights_of(const std::vector<WeightedExamples>& parts) {
  std::vector<double> weights;
  for (const WeightedExamples& part : parts) weights.push_back(part.weight);
  return weights;
}

// The first corpus of a blend has the order that it has alone.
std::uint64_t seed_of(std::uint64_t seed, std::size_t corpus) {
  return corpus == 0 ? seed : random_key(seed, hash_text("corpus"), corpus);
}

// A stretch of an epoch in bucket order; a batch lies in one or a few.
struct Pool {
  std::int64_t epoch = -1, begin = 0;
  std::vector<std::int64_t> order = {};
};

class Dataset final : public Source {
 public:
  Dataset(std::vector<WeightedExamples> parts, int bucket)
      : parts_(std::move(parts)), blend_(weights_of(parts_)), bucket_(bucket) {}

  Batch random(const Draw& draw, int b, int length, BatchFields fields) const override {
    std::vector<Pool> pools(parts_.size());
    return gather(b, length, fields, [&](int row) {
      const auto [corpus, number] = blend_(draw.first + row);
      const Examples& examples = *parts_[corpus].examples;
      const std::uint64_t seed = seed_of(draw.seed, corpus);
      const std::int64_t example = bucket_ > 0 ? bucketed(examples, seed, number, pools[corpus])
                                               : window_of(seed, examples.count(), number);
      const std::int64_t epoch = number / examples.count();
      return Chosen{corpus, example, random_key(seed, hash_text("example"), epoch, example)};
    });
  }

  Batch sequential(std::int64_t index, int b, int length, BatchFields fields) const override {
    return gather(b, length, fields, [&](int row) {
      const auto [corpus, number] = blend_(index * b + row);
      const std::int64_t example = number % parts_[corpus].examples->count();
      return Chosen{corpus, example, random_key(hash_text("validation"), example)};
    });
  }

  // Sets of a blend end at different places.
  std::int64_t count() const override { return parts_.size() == 1 ? parts_.front().examples->count() : 0; }

  BatchFields fields() const override { return parts_.front().examples->fields(); }

  bool is_dense() const override {
    return std::ranges::all_of(parts_, [](const auto& part) { return part.examples->is_dense(); });
  }

  bool varies() const override {
    return std::ranges::any_of(parts_, [](const auto& part) { return part.examples->varies(); });
  }

  std::string describe() const override {
    double sum = 0;
    for (const WeightedExamples& part : parts_) sum += part.weight;
    std::vector<std::string> described;
    for (const WeightedExamples& part : parts_) {
      const std::string share = parts_.size() > 1 ? fmt::format("{:.3g}% of ", 100 * part.weight / sum) : "";
      described.push_back(fmt::format("{}{} {}", share, part.name, part.examples->describe()));
    }
    return fmt::format("{}", fmt::join(described, ", "));
  }

 private:
  struct Chosen {
    std::size_t corpus;
    std::int64_t example;
    std::uint64_t key;  // of its random choices
  };

  // `pool` caches the last pool.
  std::int64_t bucketed(const Examples& examples, std::uint64_t seed, std::int64_t number, Pool& pool) const {
    const std::int64_t count = examples.count(), size = kBuckets * bucket_;
    const std::int64_t epoch = number / count, place = number % count, begin = place / size * size;
    if (pool.epoch != epoch || pool.begin != begin) {
      std::vector<std::int64_t> shuffled;
      for (std::int64_t i = begin; i < std::min(begin + size, count); ++i)
        shuffled.push_back(window_of(seed, count, epoch * count + i));
      const std::uint64_t key = random_key(seed, hash_text("buckets"), epoch, begin);
      const auto length_of = [&](std::int64_t example) { return examples.length(example); };
      pool = {epoch, begin, order_by_length(std::move(shuffled), bucket_, key, length_of)};
    }
    return pool.order[static_cast<std::size_t>(place - begin)];
  }

  template <typename Choose>
  Batch gather(int b, int length, BatchFields fields, Choose choose) const {
    Batch batch = make_batch(fields, this->fields(), b, length);
    for (int row = 0; row < b; ++row) {
      const auto [corpus, example, key] = choose(row);
      parts_[corpus].examples->write(example, key, BatchRow(batch, row));
    }
    return batch;
  }

  std::vector<WeightedExamples> parts_;
  Blend blend_;
  std::int64_t bucket_;
};

// For windows whose targets are the next tokens.
StreamDemand one_more(int vocab, int length) {
  return {.vocab = vocab, .context = length, .window = length + 1};
}

std::unique_ptr<Examples> open_windows(const std::string& key, const std::string& path, int vocab, int length,
                                       bool documents_apart = false) {
  auto text = open_stream(key, path, one_more(vocab, length));
  if (documents_apart && !text->has_documents()) {
    fail_input(
        "model.reset_documents is true, but {} '{}' is a text without documents; make token files of it with "
        "twobw prepare",
        key, path);
  }
  return next_token_windows(std::move(text), length, documents_apart);
}

// `name`: the user's path, in descriptions.
std::unique_ptr<Source> open_alone(const std::string& key, const std::string& path, const std::string& name,
                                   int vocab, int length) {
  if (path == "synthetic") return make_synthetic(vocab);
  if (!names_token_file(path))
    return draw_at_random(name, open_stream(key, path, one_more(vocab, length)), length);
  std::vector<WeightedExamples> parts;
  parts.push_back({.name = name, .examples = open_windows(key, path, vocab, length)});
  return make_dataset(std::move(parts));
}

}  // namespace

std::unique_ptr<Source> make_dataset(std::vector<WeightedExamples> parts, int bucket) {
  return std::make_unique<Dataset>(std::move(parts), bucket);
}

std::unique_ptr<Source> open_source(const std::string& key, const Corpora& given, const Config& config) {
  const ModelHead head = architecture::head_of(config.model);
  const bool next_tokens = head == ModelHead::CausalLm;
  const int vocab = config.model.vocab, length = config.model.context;
  const bool apart = config.model.reset_documents;
  if (!next_tokens && is_synthetic(given)) return make_synthetic_sequences(config.model);
  const auto tokenizer = next_tokens ? nullptr : tokenizer::load_tokenizer(config.data.tokenizer);
  // Refuses a tokenizer without a mask before texts are tokenized with it.
  if (head == ModelHead::MaskedLm && config.data.tokenizer != "bytes") masked_frame(config, *tokenizer);
  const Corpora corpora = corpus::with_token_files(key, given, config);
  if (next_tokens && !apart && corpora.size() == 1)
    return open_alone(key, corpora.front().path, given.front().path, vocab, length);
  const auto open = [&](const std::string& path) {
    if (next_tokens) return open_windows(key, path, vocab, length, apart);
    if (config.model.next_sentence) return open_sentence_pairs(key, path, config, *tokenizer);
    if (head == ModelHead::MaskedLm) return open_masked(key, path, config, *tokenizer);
    return open_labelled(key, path, config, *tokenizer);
  };
  std::vector<WeightedExamples> parts;
  for (std::size_t i = 0; i < corpora.size(); ++i) {
    parts.push_back({.name = given[i].path, .examples = open(corpora[i].path), .weight = corpora[i].weight});
  }
  return make_dataset(std::move(parts), config.data.bucket);
}

}  // namespace twobw::data
