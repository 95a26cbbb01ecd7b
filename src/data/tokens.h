// Token sources. Training batches are addressed by (update, microbatch), so any stage finds the same
// tokens without being sent them, and a run can start again anywhere.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <string>

#include "base/config.h"

namespace twobw::data {

struct Sample {
  at::Tensor tokens;   // [b, T] int64
  at::Tensor targets;  // [b, T]: the tokens one place on
};

class Source {
 public:
  virtual ~Source() = default;
  // b random windows of T+1 tokens, chosen by the key. Safe from any thread.
  virtual Sample random(std::uint64_t key, int b, int length) const = 0;
  // The index-th group of b consecutive, disjoint windows, wrapping around at the end.
  virtual Sample sequential(std::int64_t index, int b, int length) const = 0;
  virtual std::string describe() const = 0;
};

// `path`: a file of bytes, or "synthetic". Throws InputError for a file that is missing, too short for one
// window, or holds a token at or above `vocab`; `key` names the configuration key in the sentence.
std::unique_ptr<Source> open_source(const std::string& key, const std::string& path, int vocab, int length);

}  // namespace twobw::data
