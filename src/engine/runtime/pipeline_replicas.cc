// The collectives of a stage's replicas, within a process and between processes.
#include <algorithm>
#include <functional>

#include "engine/runtime/pipeline.h"

namespace twobw::runtime {
namespace {

using transport::SumRange;
using transport::SumRanges;

// Flat ranges of tied weights, rising; none for aliases.
std::vector<weights::Range> tied_weights(const weights::Layout& layout, Ties which) {
  std::vector<weights::Range> tied;
  for (const weights::Tie& tie : layout.ties()) {
    if (which == Ties::WithinTheStage && tie.spans()) continue;
    const weights::Parameter& parameter = layout.parameters()[tie.primary >= 0 ? tie.primary : tie.copy];
    tied.push_back({parameter.offset, weights::Layout::room_of(parameter.count)});
  }
  std::ranges::sort(tied, {}, &weights::Range::begin);
  return tied;
}

void add_range(SumRanges& ranges, std::int64_t begin, std::int64_t end, int owner) {
  if (end > begin) ranges.push_back({.begin = begin, .count = end - begin, .owner = owner});
}

}  // namespace

SumRanges sum_ranges(const weights::Layout& layout, const std::vector<weights::Range>& shards,
                     Ties summed_everywhere) {
  const std::vector<weights::Range> tied = tied_weights(layout, summed_everywhere);
  SumRanges ranges;
  for (int owner = 0; owner < std::ssize(shards); ++owner) {
    const weights::Range& shard = shards[owner];
    std::int64_t at = shard.begin;
    for (const weights::Range& range : tied) {
      const std::int64_t begin = std::max(at, range.begin), end = std::min(shard.end(), range.end());
      if (end <= begin) continue;
      add_range(ranges, at, begin, owner);
      add_range(ranges, begin, end, SumRange::kAll);
      at = end;
    }
    add_range(ranges, at, shard.end(), owner);
  }
  add_range(ranges, layout.size(), layout.gradient_size(), SumRange::kAll);  // of aliases
  return ranges;
}

// The groups count local replicas; sums between processes include the others.
void Pipeline::join_replicas(int stage) {
  const PipelineShape& shape = setup_.spec.shape;
  const int here = exchange_ ? exchange_->rank_map().replicas_here(stage) : shape.replicas;
  replicas_.emplace_back(hub_, here, add_sums(stage, "sums", sum_ranges(stage, Ties::All)));
  // Not used without predictions.
  partials_.emplace_back(hub_, here,
                         shape.predicts()
                             ? add_sums(stage, "partial sums", sum_ranges(stage, Ties::WithinTheStage))
                             : transport::sums_on_cores());
  partials_ready_.emplace_back(hub_, 1, here);
  if (shape.shards()) join_owners(stage);
}

transport::SumRanges Pipeline::sum_ranges(int stage, Ties summed_everywhere) const {
  const PipelineShape& shape = setup_.spec.shape;
  if (!shape.shards()) return {};
  const weights::Layout layout(setup_.model.layers, shape.first_layer(stage), shape.last_layer(stage));
  return runtime::sum_ranges(layout, shards_[stage], summed_everywhere);
}

// The all-gather of the weights that each replica updates.
void Pipeline::join_owners(int stage) {
  const RankMap* rank_map = exchange_ ? &exchange_->rank_map() : nullptr;
  transport::RemoteGather* remote = nullptr;
  if (rank_map && rank_map->spans_processes(stage)) {
    const int tag = take_tags(transport::kGatherTags);
    if (rank_map->replicas_here(stage) > 0) {
      transport::RemoteGatherSetup setup{.wire = *exchange_->processes().wires().exchange,
                                         .tag = tag,
                                         .ranks = rank_map->ranks_of_stage(stage),
                                         .name = fmt::format("weights of stage {}", stage),
                                         .on_failure = std::bind_front(&Pipeline::fail, this)};
      if (gpu_paths_) {
        setup.gpu = gpu_paths_->join_owners(
            {.wire = setup.wire, .tag = tag, .ranks = setup.ranks, .gpu = gpu_of(stage)}, shards_[stage]);
      }
      remote = remote_gathers_
                   .emplace_back(std::make_unique<transport::RemoteGather>(std::move(setup), shards_[stage]))
                   .get();
    }
  }
  const int here = rank_map ? rank_map->replicas_here(stage) : setup_.spec.shape.replicas;
  gathers_.push_back(std::make_unique<transport::Gather>(hub_, shards_[stage], here, remote));
}

// The GPU of the first local replica.
int Pipeline::gpu_of(int stage) const {
  const RankMap& rank_map = exchange_->rank_map();
  const std::vector<int> ranks = rank_map.ranks_of_stage(stage);
  const auto first = std::ranges::find(ranks, rank_map.rank()) - ranks.begin();
  return setup_.devices[first * setup_.spec.shape.stages + stage].gpu->gpu;
}

transport::MakeSum Pipeline::add_sums(int stage, const char* what, transport::SumRanges ranges) {
  if (!exchange_ || !exchange_->rank_map().spans_processes(stage)) {
    return setup_.devices.front().gpu ? transport::sums_on_gpus(options_.simulate_peers, std::move(ranges))
                                      : transport::sums_on_cores(std::move(ranges));
  }
  const int tag = take_tags(transport::kRemoteSumTags);
  const RankMap& rank_map = exchange_->rank_map();
  if (rank_map.replicas_here(stage) == 0) return transport::sums_on_cores();  // never asked for
  transport::Wire& wire = *exchange_->processes().wires().exchange;
  const std::vector<int> ranks = rank_map.ranks_of_stage(stage);
  std::shared_ptr<transport::GpuAdder> adder;
  if (gpu_paths_)
    adder = gpu_paths_->join({.wire = wire, .tag = tag, .ranks = ranks, .gpu = gpu_of(stage)}, ranges);
  sums_.push_back(std::make_unique<transport::RemoteSums>(
      transport::RemoteSumsSetup{.wire = wire,
                                 .tag = tag,
                                 .ranks = ranks,
                                 .name = fmt::format("{} of stage {}", what, stage),
                                 .on_failure = std::bind_front(&Pipeline::fail, this),
                                 .gpu = std::move(adder),
                                 .ranges = std::move(ranges)}));
  return sums_.back()->make();
}

}  // namespace twobw::runtime
