#include "planning/planner/search/proposals.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "planning/planner/costs/layer_sums.h"
#include "planning/planner/costs/time_model.h"
#include "planning/planner/search/bounds.h"
#include "planning/planner/search/partition.h"
#include "planning/planner/search/places.h"
#include "planning/planner/search/space.h"

namespace twobw::planner {
namespace {

using schedule::Kind;

double throughput(const std::optional<Estimate>& estimate) {
  return estimate ? estimate->plan.sequences_per_s : 0;
}

double sequences_of(const Setting& setting) {
  return 1.0 * setting.shape.microbatch * setting.shape.microbatches * setting.shape.replicas;
}

// Seconds below which an update is better than `throughput` sequences a second.
double update_to_beat(const Setting& setting, double throughput) {
  return throughput > 0 ? sequences_of(setting) / throughput : kUnlimited;
}

// Goes from rough to exact.
class Proposals {
 public:
  Proposals(const Problem& problem, const SearchOptions& options)
      : problem_(problem), options_(options), waits_for_links_(stages_wait_for_links(problem)) {
    for (int b : microbatches_to_try(problem)) {
      for (int kind = 0; kind < std::ssize(problem.cluster.kinds); ++kind) {
        const CostColumn* column = column_of(problem, kind, b);
        if (column != nullptr) owned_.push_back(std::make_unique<LayerSums>(problem.layers, *column));
        sums_[b].push_back(column != nullptr ? owned_.back().get() : nullptr);
      }
    }
    for (const Node& node : problem.cluster.nodes) {
      for (const Island& island : node.islands) device_count_ += island.count;
    }
    speeds_.assign(problem.cluster.kinds.size(), 0);
    for (const auto& [b, by_kind] : sums_) {
      for (std::size_t kind = 0; kind < by_kind.size(); ++kind) {
        if (by_kind[kind] == nullptr) continue;
        const StageLoad all = by_kind[kind]->of(0, by_kind[kind]->layers());
        speeds_[kind] = std::max(speeds_[kind], b / (all.forward + all.backward));
      }
    }
  }

  SearchResult run() {
    for (int replicas : replicas_to_try(problem_)) add_families(replicas);
    // Candidates of 2bw first: mostly one of them is the best.
    std::stable_sort(groups_.begin(), groups_.end(), [](const Group& a, const Group& b) {
      return a.candidate.schedule == Kind::TwoBW && b.candidate.schedule != Kind::TwoBW;
    });
    for (Group& group : groups_) find_good(group);
    // The most promising first: all others are measured by the best.
    std::stable_sort(groups_.begin(), groups_.end(), [](const Group& a, const Group& b) {
      return throughput(a.candidate.best) > throughput(b.candidate.best);
    });
    if (waits_for_links_) affordable_ = effort_ + std::max(kFew, effort_ / 4);
    for (Group& group : groups_) find_best(group);
    if (missed_ > throughput(best_) * (1 + kSame))
      restrict("contention on shared links was evaluated only for the best plans without it");
    for (Group& group : groups_) settle(group);
    return std::move(result_);
  }

 private:
  // A candidate that cannot come near the best of all is shown with a plan within this factor of its own
  // best.
  static constexpr double kFar = 1.25;
  // 2bw with two gradient buffers is searched sooner than others, and so in a wider vicinity of the best.
  static constexpr double kSoonNear = 0.1;
  // Bounds are loose for plans that wait for shared links. After the approximate search, the exact one gets
  // this much work, or a quarter of the approximate one's.
  static constexpr std::int64_t kFew = 2'500'000;

  // One way of spreading replicas, one microbatch size, one or two gradient buffers.
  struct Cell {
    const Places* places;
    Setting setting;
    std::optional<int> stages;  // exactly
    double at_most = 0;         // sequences a second
    bool promising = false;
  };
  // A candidate and how to search it.
  struct Group {
    Candidate candidate;
    std::vector<Cell> cells;
    std::optional<Cell> winner;  // that holds the candidate's best
  };

  void add_families(int replicas) {
    const int stages = problem_.fixed.stages.value_or(static_cast<int>(problem_.layers.size()));
    std::vector<const Places*> ways;
    for (int spread : problem_.spread > 0 ? std::vector<int>{problem_.spread}
                                          : distinct_spreads(problem_.cluster, replicas)) {
      const int most = options_.most_places > 0 ? options_.most_places : affordable_places(replicas);
      places_.push_back(std::make_unique<Places>(problem_.cluster, speeds_, replicas, spread, stages, most));
      ways.push_back(places_.back().get());
      restrict(ways.back()->restriction());
    }
    for (Kind schedule : schedules_to_try(problem_)) {
      groups_.push_back({.candidate = {.schedule = schedule, .replicas = replicas},
                         .cells = cells_of(schedule, replicas, ways)});
    }
  }

  // Adds a restriction to the result, once.
  void restrict(const std::string& what) {
    if (what.empty() || result_.restriction.find(what) != std::string::npos) return;
    result_.exact = false;
    result_.restriction += (result_.restriction.empty() ? "" : "; ") + what;
  }

  // A place is looked at with every layer, and with as many before it as a stage may have. That should be
  // done no more than a million times or so in all.
  int affordable_places(int replicas) const {
    constexpr double all = 1.25e6, at_once = 1.5e5;
    const double layers = static_cast<double>(problem_.layers.size());
    const double stages = std::max(1, device_count_ / replicas);
    const double candidates = static_cast<double>(replicas_to_try(problem_).size());
    return static_cast<int>(std::min(all / candidates, at_once) / layers / (1 + 2 * layers / stages));
  }

  // Sorted by their upper bounds, the highest first.
  std::vector<Cell> cells_of(Kind schedule, int replicas, const std::vector<const Places*>& ways) {
    std::vector<Cell> cells;
    for (int b : microbatches_to_try(problem_)) {
      const int m = microbatch_count(problem_, replicas, b);
      if (m == 0) continue;
      for (const Places* way : ways) {
        for (bool second : second_gradients_to_try(problem_, schedule)) {
          Setting setting{.shape = {.schedule = schedule,
                                    .replicas = replicas,
                                    .microbatch = b,
                                    .microbatches = m,
                                    .extra = fixed_extra(problem_, schedule),
                                    .double_buffer_gradients = second,
                                    .predict = problem_.fixed.predict.value_or(true),
                                    .step_slack = problem_.fixed.step_slack.value_or(1),
                                    .shard_state = problem_.fixed.shard_state.value_or(false)}};
          for (bool late : late_ties_to_try(problem_, setting.shape)) {
            setting.shape.defer_tied_update = late;
            add_cells(*way, setting, cells);
          }
        }
      }
    }
    std::stable_sort(cells.begin(), cells.end(),
                     [](const Cell& a, const Cell& b) { return a.at_most > b.at_most; });
    return cells;
  }

  void add_cells(const Places& way, const Setting& setting, std::vector<Cell>& cells) {
    const auto add = [&](std::optional<int> stages) {
      Cell cell{.places = &way, .setting = setting, .stages = stages};
      cell.at_most = bounds_of(cell).throughput();
      if (cell.at_most > options_.beat) cells.push_back(cell);
    };
    if (setting.shape.extra == 0 || problem_.fixed.stages) {
      add(problem_.fixed.stages);
    } else {
      for (int stages = 1; stages <= way.all().front().reach; ++stages) add(stages);
    }
  }

  Bounds bounds_of(const Cell& cell) const {
    return {problem_, cell.setting, *cell.places, sums_.at(cell.setting.shape.microbatch), cell.stages};
  }

  Partition partition_of(const Cell& cell) {
    return {problem_,    cell.setting, *cell.places, sums_.at(cell.setting.shape.microbatch),
            cell.stages, space_};
  }

  // A rough look at every cell, for something to beat.
  void find_good(Group& group) {
    std::optional<Estimate>& best = group.candidate.best;
    const bool more = extras_to_try(problem_, group.candidate.schedule).size() > 1;
    for (Cell& cell : group.cells) {
      if (cell.at_most <= throughput(best)) continue;
      const bool shown = options_.beat == 0 && cell.at_most > kFar * throughput(best);
      if (cell.at_most < (1 - options_.near) * good_ && !shown) continue;
      Partition partition = partition_of(cell);
      keep_near_best(cell, good_, partition);
      const double below = update_to_beat(cell.setting, throughput(best));
      std::optional<Estimate> plan = partition.solve_approximately(below);
      take_near_best(partition, group);
      // A cell with nothing better so far may have with more in flight.
      cell.promising = plan || (more && (!best || partition.may_beat(below)));
      count(partition);
      if (throughput(plan) <= throughput(best)) {
        if (plan) group.candidate.others.push_back(std::move(*plan));
        continue;
      }
      replace_best(group, std::move(plan), cell);
      good_ = std::max(good_, throughput(best));
    }
  }

  // Keeps plans that are better than the best by the formula with the least contention.
  void keep_near_best(const Cell& cell, double best, Partition& partition) const {
    if (options_.simulate > 0 && waits_for_links_)
      partition.keep_near_best(update_to_beat(cell.setting, best));
  }
  static void take_near_best(Partition& partition, Group& group) {
    std::ranges::move(partition.near_best(), std::back_inserter(group.candidate.others));
    partition.near_best().clear();
  }

  void may_miss(const Partition& partition, const Setting& setting) {
    const double seconds = partition.missed();
    if (seconds < kUnlimited) missed_ = std::max(missed_, sequences_of(setting) / seconds);
  }

  void count(const Partition& partition) {
    result_.stages += partition.considered();
    result_.work += partition.effort();
    effort_ += partition.effort();
  }

  static void replace_best(Group& group, std::optional<Estimate> plan, const Cell& cell) {
    std::optional<Estimate>& best = group.candidate.best;
    if (best) group.candidate.others.push_back(std::move(*best));
    best = std::move(plan);
    group.winner = cell;
  }

  // Sequences a second that such a plan of the candidate must exceed to matter: those of the candidate's
  // best, where it may come near the best of all, or where that is soon found.
  double to_beat(const Candidate& candidate, const Setting& setting) const {
    const double own = throughput(candidate.best);
    return std::max(own, (1 - near(setting)) * std::max(throughput(best_), options_.beat));
  }
  double near(const Setting& setting) const {
    const bool soon = setting.shape.schedule == Kind::TwoBW && !stalls(setting);
    return soon ? std::max(options_.near, kSoonNear) : options_.near;
  }

  // All plans of the candidate that matter.
  void find_best(Group& group) {
    for (Cell cell : group.cells) {
      if (effort_ >= affordable_) {
        restrict("of plans that wait for shared links, only the most promising");
        break;
      }
      if (!cell.promising || cell.at_most <= to_beat(group.candidate, cell.setting) * (1 + kSame)) continue;
      const std::vector<int> extras = extras_to_try(problem_, cell.setting.shape.schedule);
      for (int extra : extras) {
        cell.setting.extra_a_boundary = extra;
        Partition partition = partition_of(cell);
        keep_near_best(cell, std::max(good_, throughput(best_)), partition);
        ++result_.settings;
        std::optional<Estimate> found =
            partition.solve_exactly(update_to_beat(cell.setting, to_beat(group.candidate, cell.setting)));
        take_near_best(partition, group);
        if (throughput(found) > throughput(group.candidate.best)) {
          replace_best(group, std::move(found), cell);
          if (throughput(group.candidate.best) > throughput(best_)) best_ = group.candidate.best;
        }
        const double left = to_beat(group.candidate, cell.setting);
        const bool enough = extra == 0 && extras.size() > 1 && left > 0 &&
                            !partition.may_beat(update_to_beat(cell.setting, left));
        count(partition);
        may_miss(partition, cell.setting);
        if (enough) break;
      }
    }
    if (throughput(group.candidate.best) > throughput(best_)) best_ = group.candidate.best;
  }

  // A second gradient buffer never costs time; the time model may overestimate it.
  void double_gradients(Group& group) {
    if (problem_.fixed.double_buffer_gradients || group.winner->setting.shape.double_buffer_gradients) return;
    Plan plan = group.candidate.best->plan;
    plan.shape.double_buffer_gradients = true;
    Estimate doubled = evaluate(problem_, std::move(plan), sums_.at(group.winner->setting.shape.microbatch));
    if (!doubled.fits() || throughput(doubled) < throughput(group.candidate.best)) return;
    group.candidate.best = std::move(doubled);
    group.winner->setting.shape.double_buffer_gradients = true;
  }

  // Memory that the first stage could do without.
  void step_early(Group& group) {
    if (problem_.fixed.defer_tied_update || !group.winner->setting.shape.defer_tied_update) return;
    Plan plan = group.candidate.best->plan;
    plan.shape.defer_tied_update = false;
    Estimate early = evaluate(problem_, std::move(plan), sums_.at(group.winner->setting.shape.microbatch));
    if (throughput(early) < throughput(group.candidate.best) * (1 - kSame)) return;
    group.candidate.best = std::move(early);
    group.winner->setting.shape.defer_tied_update = false;
  }

  void settle(Group& group) {
    Candidate& candidate = group.candidate;
    if (candidate.best) {
      step_early(group);
      double_gradients(group);
      candidate.status = Status::Slower;
      const bool first = throughput(candidate.best) >= throughput(best_) * (1 - kSame);
      if (first) candidate.best = partition_of(*group.winner).least_memory_tie(*candidate.best);
    } else if (!group.cells.empty() && options_.beat == 0) {
      find_closest(group.cells, candidate);
    } else {
      const bool batch = microbatch_count(problem_, candidate.replicas, sums_.begin()->first) == 0;
      candidate.reason = batch ? fmt::format("a batch of {} is too small for {} replicas", problem_.batch,
                                             candidate.replicas)
                               : "no way to place it";
    }
    result_.candidates.push_back(std::move(candidate));
  }

  // The smallest microbatches need least memory; how replicas are spread does not matter to it.
  void find_closest(const std::vector<Cell>& cells, Candidate& candidate) {
    int smallest = cells.front().setting.shape.microbatch;
    for (const Cell& cell : cells) smallest = std::min(smallest, cell.setting.shape.microbatch);
    const Places* seen = nullptr;
    for (const Cell& cell : cells) {
      if (cell.setting.shape.microbatch != smallest || (seen != nullptr && cell.places != seen)) continue;
      seen = cell.places;
      Partition partition = partition_of(cell);
      std::optional<Estimate> closest = partition.least_over();
      if (closest && (!candidate.best || closest->over < candidate.best->over))
        candidate.best = std::move(closest);
      result_.stages += partition.considered();
    }
    if (!candidate.best) {
      candidate.reason = fmt::format("no number of stages is allowed with {} microbatches an update",
                                     cells.front().setting.shape.microbatches);
      return;
    }
    candidate.status = Status::Memory;
    candidate.reason = fmt::format("memory of stage {} by {}", candidate.best->tightest,
                                   format_shortage(candidate.best->over));
  }

  const Problem& problem_;
  const SearchOptions& options_;
  bool waits_for_links_;  // a plan may
  std::vector<std::unique_ptr<LayerSums>> owned_;
  std::map<int, LayerSumsByKind> sums_;  // by microbatch size
  std::vector<double> speeds_;
  int device_count_ = 0;
  std::vector<std::unique_ptr<Places>> places_;
  Frontier::Workspace space_;
  std::vector<Group> groups_;
  std::int64_t effort_ = 0, affordable_ = std::numeric_limits<std::int64_t>::max();
  double good_ = options_.beat;   // sequences a second, of the best that was soon found
  std::optional<Estimate> best_;  // of all
  double missed_ = 0;             // sequences a second at most, of plans that may have been missed
  SearchResult result_;
};

}  // namespace

SearchResult propose(const Problem& problem, const SearchOptions& options) {
  return Proposals(problem, options).run();
}

}  // namespace twobw::planner
