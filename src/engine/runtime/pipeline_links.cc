// The links of a pipeline's workers, between stages and for ties, and the collectives of a stage's replicas,
// within a process and between processes.
#include <algorithm>
#include <functional>
#include <map>

#include "core/base/error.h"
#include "engine/optim/state.h"
#include "engine/runtime/pipeline.h"

namespace twobw::runtime {

namespace {

// Source rank for `to[index]`: itself if it is in `from`, else round-robin.
int source_of(int index, const std::vector<int>& to, const std::vector<int>& from) {
  const auto own = std::ranges::find(from, to[index]);
  return own != from.end() ? *own : from[index % from.size()];
}

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

const device::Device& Pipeline::device_of(const StageSetup& stage) const {
  return setup_.devices[stage.replica * setup_.spec.shape.stages + stage.stage];
}

bool Pipeline::are_apart(const StageSetup& one, const StageSetup& other) const {
  const auto &a = device_of(one).gpu, &b = device_of(other).gpu;
  return a && b && (a->gpu != b->gpu || options_.simulate_peers);
}

int Pipeline::rank_of(const StageSetup& stage) const {
  return rank_of(stage.replica * setup_.spec.shape.stages + stage.stage);
}

// All processes take the same tags for the same links, even without an end of the link.
int Pipeline::take_tags(int count) {
  const int first = tags_;
  tags_ += count;
  TWOBW_ASSERT(tags_ <= transport::kTagsOfPipeline, "{} tags for {} workers", tags_,
               setup_.spec.shape.workers());
  return exchange_->number() * transport::kTagsOfPipeline + first;
}

Pipeline::Ends Pipeline::add_link(const StageSetup& from, const StageSetup& to,
                                  std::unique_ptr<transport::Wire> transport::Wires::*wire, bool apart) {
  if (rank_of(from) != rank_of(to)) {
    const int tag = take_tags(transport::kRemoteLinkTags);
    return add_remote_link(from, to, *(exchange_->processes().wires().*wire), tag);
  }
  if (exchange_ && rank_of(from) != exchange_->rank_map().rank()) return {};
  transport::Link* link =
      links_.emplace_back(apart ? transport::peer_link(hub_) : transport::local_link(hub_)).get();
  return {link, link};
}

Pipeline::Ends Pipeline::add_remote_link(const StageSetup& from, const StageSetup& to, transport::Wire& wire,
                                         int tag) {
  const int rank = exchange_->rank_map().rank();
  const bool sends = rank_of(from) == rank;
  if (!sends && rank_of(to) != rank) return {};
  const int peer = rank_of(sends ? to : from);
  transport::RemoteEnd end{.wire = wire,
                           .peer = peer,
                           .tag = tag,
                           .name = fmt::format("{} process {}", sends ? "to" : "from", peer),
                           .on_failure = std::bind_front(&Pipeline::fail_link, this)};
  if (gpu_paths_) {
    const int gpu = device_of(sends ? from : to).gpu->gpu;
    end.gpu = gpu_paths_->connect({.wire = wire, .peer = peer, .tag = tag, .sends = sends, .gpu = gpu});
  }
  if (sends) return {.out = senders_.emplace_back(transport::sending_end(std::move(end))).get()};
  return {.in = receivers_.emplace_back(transport::receiving_end(hub_, std::move(end))).get()};
}

void Pipeline::connect() {
  const PipelineShape& shape = setup_.spec.shape;
  if (options_.processes) {
    if (setup_.devices.front().gpu) {
      gpu_paths_ = transport::nccl_paths(std::chrono::duration<double>(setup_.config.pipeline.timeout),
                                         std::bind_front(&Pipeline::fail, this));
    }
    const RankMap rank_map(shape, options_.processes->size(), options_.processes->rank());
    exchange_ = std::make_unique<Exchange>(*options_.processes, rank_map, hub_, group_, shape.owners(), gate_,
                                           observer_, std::bind_front(&Pipeline::fail_from_afar, this));
    worker_observer_ = exchange_->observer();
  }
  for (int stage = 0; shape.shards() && stage < shape.stages; ++stage) {
    const weights::Layout layout(setup_.model.layers, shape.first_layer(stage), shape.last_layer(stage));
    shards_.push_back(optim::shards_of(setup_.config.optimizer, layout, shape.replicas));
  }
  std::vector<WorkerParts> workers;
  for (int replica = 0; replica < shape.replicas; ++replica) {
    for (int stage = 0; stage < shape.stages; ++stage) workers.push_back({.setup = setup_of(replica, stage)});
  }
  for (int stage = 0; stage < shape.stages; ++stage) join_replicas(stage);
  join_stages(workers);
  join_ties(workers);
  for (WorkerParts& worker : workers) {
    const int stage = worker.setup.stage;
    if (!is_here(stage, worker.setup.replica)) {
      workers_.push_back(nullptr);
      continue;
    }
    const Groups groups{.replicas = replicas_[stage],
                        .partials = partials_[stage],
                        .partials_ready = partials_ready_[stage],
                        .stages = group_,
                        .gather = shape.shards() ? gathers_[stage].get() : nullptr,
                        .gate = gate_};
    workers_.push_back(std::make_unique<Worker>(setup_, options_, std::move(worker.setup),
                                                std::move(worker.ports), groups, board_, worker_observer_));
  }
}

void Pipeline::join_stages(std::vector<WorkerParts>& workers) {
  using transport::Wires;
  for (std::size_t worker = 1; worker < workers.size(); ++worker) {
    WorkerParts &before = workers[worker - 1], &here = workers[worker];
    if (here.setup.stage == 0) continue;
    const bool apart = are_apart(before.setup, here.setup);
    const Ends forth = add_link(before.setup, here.setup, &Wires::activations, apart);
    const Ends back = add_link(here.setup, before.setup, &Wires::gradients, apart);
    before.ports.activations_out = forth.out;
    here.ports.activations_in = forth.in;
    here.ports.gradients_out = back.out;
    before.ports.gradients_in = back.in;
    before.setup.fixed_gradient_address = !apart && rank_of(before.setup) == rank_of(here.setup);
  }
}

StageSetup Pipeline::setup_of(int replica, int stage) const {
  const PipelineShape& shape = setup_.spec.shape;
  const bool predicts = shape.predicts();
  return {
      .replica = replica,
      .stage = stage,
      .first_layer = shape.first_layer(stage),
      .last_layer = shape.last_layer(stage),
      .recompute = shape.recomputes(stage),
      .slots = schedule::in_flight_bound(setup_.spec, stage),
      .slots_before = schedule::in_flight_bound(setup_.spec, std::max(stage - 1, 0)),
      .versions = schedule::versions_kept(setup_.spec, stage),
      .gradient_buffers = schedule::gradient_buffers(setup_.spec, stage),
      .predicts = predicts,
      .switches_to_true_weights = schedule::switches_to_true_weights(setup_.spec),
      .sums_partials = predicts && shape.replicas > 1,
      .predict_ratio = predicts ? 1.0 * shape.microbatches / schedule::predicted_from(setup_.spec, stage) : 1,
      .saves = (replica == 0 || shape.shards()) && (setup_.spec.save_every > 0 || setup_.spec.save_last),
      .shards = shape.shards() ? shards_[stage] : std::vector<weights::Range>(),
      .position = options_.restored ? options_.restored->position() : DataPosition()};
}

// For each tie that spans stages, by the name of the weights: a worker of the copy's stage sends to one of
// the primary's, and the answer goes to every copy. In every process one replica represents a stage; all have
// the same sum, so each end receives from one of them.
void Pipeline::join_ties(std::vector<WorkerParts>& workers) {
  struct End {
    WorkerParts* worker;
    int tie;  // in its layout
  };
  std::map<std::string, std::pair<std::vector<End>, std::vector<End>>> by_name;  // primaries and copies
  for (WorkerParts& worker : workers) {
    const weights::Layout layout(setup_.model.layers, worker.setup.first_layer, worker.setup.last_layer);
    for (int i = 0; i < static_cast<int>(layout.ties().size()); ++i) {
      const weights::Tie& tie = layout.ties()[i];
      if (tie.primary < 0) by_name[layout.parameters()[tie.copy].spec.tied_to].second.push_back({&worker, i});
      if (tie.copy < 0) by_name[layout.parameters()[tie.primary].spec.name].first.push_back({&worker, i});
    }
  }
  const auto ranks_of = [&](const std::vector<End>& ends) {
    std::vector<int> ranks;  // rising, like the workers
    for (const End& end : ends) {
      if (ranks.empty() || ranks.back() != rank_of(end.worker->setup))
        ranks.push_back(rank_of(end.worker->setup));
    }
    return ranks;
  };
  const auto first_in = [&](const std::vector<End>& ends, int rank) -> const StageSetup& {
    return std::ranges::find_if(ends, [&](const End& end) { return rank_of(end.worker->setup) == rank; })
        ->worker->setup;
  };
  using transport::Wires;
  for (const auto& [name, ends] : by_name) {
    const auto& [primaries, copies] = ends;
    bool apart = false;
    for (const End& primary : primaries) {
      for (const End& copy : copies) apart = apart || are_apart(primary.worker->setup, copy.worker->setup);
    }
    const std::vector<int> primary_ranks = ranks_of(primaries), copy_ranks = ranks_of(copies);
    std::map<int, transport::Link*> to_primaries;                          // by their process
    std::map<int, std::vector<transport::Link*>> of_copies, of_primaries;  // what leaves, by process
    for (int i = 0; i < std::ssize(primary_ranks); ++i) {
      const int from = source_of(i, primary_ranks, copy_ranks);
      const Ends link =
          add_link(first_in(copies, from), first_in(primaries, primary_ranks[i]), &Wires::exchange, apart);
      to_primaries[primary_ranks[i]] = link.in;
      if (link.out) of_copies[from].push_back(link.out);
    }
    for (const End& copy : copies) {
      const int rank = rank_of(copy.worker->setup);
      const auto index = static_cast<int>(std::ranges::find(copy_ranks, rank) - copy_ranks.begin());
      const int from = source_of(index, copy_ranks, primary_ranks);
      const Ends link = add_link(first_in(primaries, from), copy.worker->setup, &Wires::answers, apart);
      copy.worker->ports.ties.push_back({.tie = copy.tie, .in = link.in, .out = of_copies[rank]});
      if (link.out) of_primaries[from].push_back(link.out);
    }
    for (const End& primary : primaries) {
      const int rank = rank_of(primary.worker->setup);
      primary.worker->ports.ties.push_back(
          {.tie = primary.tie, .in = to_primaries[rank], .out = of_primaries[rank]});
    }
  }
}

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

transport::RemoteReplicas Pipeline::remote_replicas(int stage, const char* what, int tag) {
  return {.wire = *exchange_->processes().wires().exchange,
          .tag = tag,
          .ranks = exchange_->rank_map().ranks_of_stage(stage),
          .name = fmt::format("{} of stage {}", what, stage),
          .on_failure = std::bind_front(&Pipeline::fail, this)};
}

// The all-gather of the weights that each replica updates.
void Pipeline::join_owners(int stage) {
  const RankMap* rank_map = exchange_ ? &exchange_->rank_map() : nullptr;
  transport::RemoteGather* remote = nullptr;
  if (rank_map && rank_map->spans_processes(stage)) {
    const int tag = take_tags(transport::kGatherTags);
    if (rank_map->replicas_here(stage) > 0) {
      transport::RemoteReplicas replicas = remote_replicas(stage, "weights", tag);
      std::shared_ptr<transport::GpuGatherer> gatherer;
      if (gpu_paths_) gatherer = gpu_paths_->join_owners(replicas, gpu_of(stage), shards_[stage]);
      remote = remote_gathers_
                   .emplace_back(std::make_unique<transport::RemoteGather>(
                       std::move(replicas), shards_[stage], std::move(gatherer)))
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
  transport::RemoteReplicas replicas = remote_replicas(stage, what, tag);
  std::shared_ptr<transport::GpuAdder> adder;
  if (gpu_paths_) adder = gpu_paths_->join(replicas, gpu_of(stage), ranges);
  sums_.push_back(
      std::make_unique<transport::RemoteSums>(std::move(replicas), std::move(ranges), std::move(adder)));
  return sums_.back()->make();
}

}  // namespace twobw::runtime
