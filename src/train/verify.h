// Trains the pipeline, all its replicas, and the serial oracle on the same configuration and compares them
// bit for bit.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/config.h"

namespace twobw::train {

struct Verdict {
  bool equal = false;
  std::string difference;  // the first one, in words; empty when equal
  std::vector<int> split;
  std::int64_t updates = 0;
  std::int64_t parameters = 0;
  std::int64_t skipped = 0;  // updates both skipped
  double final_loss = 0;
  std::vector<int> peak_versions;  // weight versions alive at once, by stage; the most of any replica
};

// Each worker gets one thread, as the oracle has: sums over several threads would round otherwise.
// `against`: the schedule whose rule the oracle follows; empty: the pipeline's own.
Verdict verify(const Config& config, const std::string& against = {});

}  // namespace twobw::train
