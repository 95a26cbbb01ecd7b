// Sources of batches, and how a configuration's data are opened. Training batches are addressed by (update,
// microbatch), so that every stage computes the same batch and a run can resume anywhere.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "core/base/config.h"
#include "engine/data/batch.h"
#include "text/corpus/indexed_file.h"

namespace twobw::data {

inline constexpr BatchFields kText = {Field::Tokens, Field::Targets};

// Address of a training microbatch: a key for random sources, a sequence number for ordered ones.
struct Draw {
  std::uint64_t key = 0;   // of this microbatch
  std::uint64_t seed = 0;  // of the run
  std::int64_t first = 0;  // its first sequence, counted from the start of the run
};

class Source {
 public:
  virtual ~Source() = default;
  // b sequences of `length` tokens with the requested fields; text has next-token targets. Thread-safe.
  virtual Batch random(const Draw& draw, int b, int length, BatchFields fields = kText) const = 0;
  // The index-th group of b consecutive sequences; wraps around at the end.
  virtual Batch sequential(std::int64_t index, int b, int length, BatchFields fields = kText) const = 0;
  // Sequences before it wraps around; 0 if endless.
  virtual std::int64_t count() const { return 0; }
  virtual BatchFields fields() const { return kText; }  // available
  // Whether every target, label and value counts in the loss.
  virtual bool is_dense() const { return true; }
  // Whether lengths vary, so that common padding of a microbatch is worth cutting.
  virtual bool varies() const { return false; }
  virtual std::string describe() const = 0;
};

// Opens a configuration's corpora, blended by weight, for the model's head. causal_lm: files of bytes, token
// files (their prefix, the .bin or the .idx) or "synthetic"; a text in a blend is cut into windows in order,
// like token files. masked_lm: windows of texts and token files. classification and regression: tsv and jsonl
// files. model.reset_documents takes token files or synthetic. With data.tokenizer, texts are first converted
// to cached token files (text/corpus/configured_tokens.h). Throws InputError naming the configuration `key`,
// for instance for missing or short files and for tokens from model.vocab on.
std::unique_ptr<Source> open_source(const std::string& key, const Corpora& corpora, const Config& config);

// Whether open_source treats the path as token files.
using corpus::names_token_file;

// Arguments of Source::sequential.
struct Portion {
  std::int64_t index = 0;
  int sequences = 0;
};

// The microbatches of an evaluation, each sequence once: full ones, then the remaining sequences one by one.
class Portions {
 public:
  // Covers the first `most` sequences, or all if there are fewer.
  Portions(const Source& source, std::int64_t most, int microbatch)
      : sequences_(source.count() > 0 ? std::min(source.count(), most) : most), microbatch_(microbatch) {}

  std::int64_t sequences() const { return sequences_; }
  std::int64_t size() const { return sequences_ / microbatch_ + sequences_ % microbatch_; }
  Portion operator[](std::int64_t i) const {
    const std::int64_t full = sequences_ / microbatch_;
    return i < full ? Portion{i, microbatch_} : Portion{full * microbatch_ + i - full, 1};
  }

 private:
  std::int64_t sequences_;
  int microbatch_;
};

// The sequences evaluated in training.
inline Portions validation_portions(const Source& validation, const Config& config) {
  const int b = config.pipeline.microbatch;
  return {validation, std::int64_t{config.train.eval_microbatches} * b, b};
}

}  // namespace twobw::data
