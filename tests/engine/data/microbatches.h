// Sources of one corpus, and the microbatches that a run trains on.
#pragma once

#include <memory>
#include <string>

#include "core/base/config.h"
#include "engine/data/tokens.h"
#include "engine/runtime/microbatches.h"

namespace twobw::data {

// Next-token windows of `length` tokens below `vocab`.
inline std::unique_ptr<Source> open_text(const std::string& path, int vocab, int length) {
  Config config;
  config.model.vocab = vocab;
  config.model.context = length;
  return open_source("data.train", {{.path = path}}, config);
}

// Calls visit(batch) for all microbatches of the first updates, replica after replica.
template <typename Visit>
void for_each_microbatch(const Config& config, const Source& source, BatchFields fields, int updates,
                         Visit visit) {
  runtime::MicrobatchSource microbatches(config, source, source, fields);
  const int m = config.pipeline.microbatches;
  for (int update = 0; update < updates; ++update) {
    for (int replica = 0; replica < config.pipeline.replicas; ++replica) {
      for (int k = update * m; k < (update + 1) * m; ++k) visit(microbatches.training(replica, k).batch);
    }
  }
}

}  // namespace twobw::data
