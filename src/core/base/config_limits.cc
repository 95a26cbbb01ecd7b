#include "core/base/config_limits.h"

#include <fmt/format.h>

#include <limits>
#include <numeric>

namespace twobw {

Complaint heads_fit(const Config& config) {
  const ModelConfig& model = config.model;
  if (std::int64_t{model.heads} * model.head_size <= kWidestHidden) return {};
  return fmt::format("be at most {} with {} heads", kWidestHidden / model.heads, model.heads);
}

Complaint batch_is_countable(const Config& config) {
  const PipelineConfig& pipeline = config.pipeline;
  const std::int64_t sequences =
      std::int64_t{pipeline.microbatch} * pipeline.replicas * pipeline.microbatches;
  if (sequences <= kLargestBatch) return {};
  return fmt::format(
      "make an update of at most {} sequences; with microbatches of {} on {} replica{} it has {}",
      kLargestBatch, pipeline.microbatch, pipeline.replicas, pipeline.replicas > 1 ? "s" : "", sequences);
}

Complaint tokens_are_countable(const Config& config) {
  const std::int64_t tokens = std::int64_t{config.pipeline.batch()} * config.model.context;
  const std::int64_t most = std::numeric_limits<std::int64_t>::max() / tokens;
  if (config.train.updates <= most) return {};
  return fmt::format("be at most {} with {} tokens in an update", most, tokens);
}

Complaint split_is_countable(const Config& config) {
  constexpr int kMost = 100 * kMostBlocks;  // a block has several layers
  const auto& split = config.pipeline.split;
  if (std::accumulate(split.begin(), split.end(), std::int64_t{0}) <= kMost) return {};
  return fmt::format("cover at most {} layers", kMost);
}

}  // namespace twobw
