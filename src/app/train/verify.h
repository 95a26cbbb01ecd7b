// Trains the pipeline, all its replicas, and the serial oracle on the same configuration and compares them,
// bit for bit or within rounding.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/config.h"
#include "engine/transport/processes.h"

namespace twobw::train {

struct Verification {
  bool equal = false;
  std::string difference;  // the first one, in words; empty when equal
  std::vector<int> split;
  std::int64_t updates = 0;
  std::int64_t parameters = 0;
  std::int64_t skipped = 0;  // updates both skipped
  double final_loss = 0;
  std::vector<int> peak_versions;  // weight versions alive at once, by stage; the most of any replica
};

struct VerifyOptions {
  std::string against;  // the schedule whose rule the oracle follows; empty: the pipeline's own
  // Above 0: GPUs compute as they do in training, where threads add in any order, and losses, gradient norms
  // and the final weights as a whole may be off by this fraction.
  double within = 0;
  bool simulate_peers = false;  // as in runtime::PipelineOptions
  // As in runtime::PipelineOptions; all of them verify the same configuration. Rank 0 compares what all
  // report, checksums of the weights after every update and the final weights; the others get its verdict.
  std::shared_ptr<transport::Processes> processes;
};

// Each worker gets one thread, as the oracle has: sums over several threads would round otherwise.
Verification verify(const Config& config, const VerifyOptions& options = {});

}  // namespace twobw::train
