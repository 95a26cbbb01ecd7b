// The training microbatches of a stage on CPU cores, read ahead of it.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/runtime/pass.h"
#include "engine/runtime/read_ahead.h"

namespace twobw::runtime {

// How a stage reads what these microbatches have for it.
ReadAheadSetup read_ahead_setup(const Config& config, const MicrobatchSource& microbatches);

class Feed {
 public:
  Feed(const Config& config, const MicrobatchSource& microbatches, int replica);

  // The microbatches in their order. Their memory is counted to the calling thread's pool.
  models::MicrobatchContext take(std::int64_t microbatch);

  double waited() const { return ahead_.waited(); }  // seconds in all

 private:
  MicrobatchSource microbatches_;  // of the thread that reads
  int replica_;
  std::vector<models::MicrobatchContext> read_;
  ReadAhead ahead_;  // the last: its thread uses the others
};

}  // namespace twobw::runtime
