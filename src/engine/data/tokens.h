// Sources of batches. Training batches are addressed by (update, microbatch), so any stage finds the same
// without being sent them, and a run can start again anywhere.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/base/config.h"
#include "engine/data/batch.h"
#include "text/corpus/indexed_file.h"

namespace twobw::data {

inline constexpr BatchFields kText = {Field::Tokens, Field::Targets};

// A microbatch of training, in the two ways in which sources choose windows for it: at random, or from an
// order in which each has its turn.
struct Draw {
  std::uint64_t key = 0;   // of this microbatch
  std::uint64_t seed = 0;  // of the run
  std::int64_t first = 0;  // number of its first sequence, of all sequences since the run began
};

class Source {
 public:
  virtual ~Source() = default;
  // b sequences of T tokens, for instance windows of T+1 tokens: tokens, and as targets the tokens one place
  // on. Of its fields those that are asked for. Safe from any thread.
  virtual Batch random(const Draw& draw, int b, int length, BatchFields fields = kText) const = 0;
  // The index-th group of b consecutive sequences, wrapping around at the end.
  virtual Batch sequential(std::int64_t index, int b, int length, BatchFields fields = kText) const = 0;
  // Sequences that it has before it wraps around; 0: there is no end.
  virtual std::int64_t count() const { return 0; }
  virtual BatchFields fields() const { return kText; }  // that it has
  // Every target, label or value of every batch counts; else those that do are counted.
  virtual bool is_dense() const { return true; }
  // Sequences are of many lengths, so that it is worth leaving out what is padding in all of a microbatch.
  virtual bool varies() const { return false; }
  virtual std::string describe() const = 0;
};

// `path`: a file of bytes, token files (their prefix, the .bin or the .idx), or "synthetic". Throws
// InputError for a file that is missing, too short for one window, or holds a token at or above `vocab`;
// `key` names the configuration key in the sentence.
std::unique_ptr<Source> open_source(const std::string& key, const std::string& path, int vocab, int length);

// What the configuration names under `key`, a path or several that are blended, as the model's head takes it:
// for causal_lm as above, but a text among several is cut into windows as token files are; so are texts and
// token files for masked_lm. With model.reset_documents they are token files, or synthetic. For
// classification and regression paths are tsv and jsonl files. Texts for which data.tokenizer is set are
// opened as token files, made now where they are missing (text/corpus/configured_tokens.h).
std::unique_ptr<Source> open_source(const std::string& key, const Corpora& corpora, const Config& config);

// Whether open_source takes the path for that of token files.
using corpus::names_token_file;

}  // namespace twobw::data
