// Sources of batches. Training batches are addressed by (update, microbatch), so any stage finds the same
// without being sent them, and a run can start again anywhere.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/config.h"
#include "data/batch.h"

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
  // b windows of T+1 tokens: tokens, and as targets the tokens one place on. Of those the fields that are
  // asked for. Safe from any thread.
  virtual Batch random(const Draw& draw, int b, int length, BatchFields fields = kText) const = 0;
  // The index-th group of b consecutive, disjoint windows, wrapping around at the end.
  virtual Batch sequential(std::int64_t index, int b, int length, BatchFields fields = kText) const = 0;
  // Every place of every batch has a target; else they are counted.
  virtual bool is_dense() const { return true; }
  virtual std::string describe() const = 0;
};

// `path`: a file of bytes, token files (their prefix, the .bin or the .idx), or "synthetic". Throws
// InputError for a file that is missing, too short for one window, or holds a token at or above `vocab`;
// `key` names the configuration key in the sentence.
std::unique_ptr<Source> open_source(const std::string& key, const std::string& path, int vocab, int length);

// Whether open_source takes the path for that of token files.
bool names_token_file(const std::string& path);

}  // namespace twobw::data
