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

class Source {
 public:
  virtual ~Source() = default;
  // b random windows of T+1 tokens, chosen by the key: tokens, and as targets the tokens one place on. Of
  // those the fields that are asked for. Safe from any thread.
  virtual Batch random(std::uint64_t key, int b, int length, BatchFields fields = kText) const = 0;
  // The index-th group of b consecutive, disjoint windows, wrapping around at the end.
  virtual Batch sequential(std::int64_t index, int b, int length, BatchFields fields = kText) const = 0;
  // Every place of every batch has a target; else they are counted.
  virtual bool is_dense() const { return true; }
  virtual std::string describe() const = 0;
};

// `path`: a file of bytes, or "synthetic". Throws InputError for a file that is missing, too short for one
// window, or holds a token at or above `vocab`; `key` names the configuration key in the sentence.
std::unique_ptr<Source> open_source(const std::string& key, const std::string& path, int vocab, int length);

}  // namespace twobw::data
