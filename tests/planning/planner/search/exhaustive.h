// The best plan by trying them all: every plan of the space that planning/planner/search.h and
// planning/planner/placement.h describe is written down in full and given to evaluate(). Made from the first
// stage to the last, with real nodes, and sharing no code with the search.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "planning/planner/costs/estimate.h"
#include "planning/planner/costs/stage_timing.h"

namespace twobw::planner {

class Exhaustive {
 public:
  // `all_recomputations`: try every choice of stages to recompute; else only that of the stages
  // that do not fit without.
  Exhaustive(const Problem& problem, bool all_recomputations)
      : problem_(problem), all_recomputations_(all_recomputations) {}

  // Calls `visit` with every plan that fits.
  void each(std::function<void(Estimate)> visit) {
    visit_ = std::move(visit);
    for (int w : replica_counts()) {
      std::set<std::vector<int>> seen;
      for (int spread = 1; spread <= w; ++spread) {
        if (w % spread != 0) continue;
        choose_groups(w, spread);
        if (!seen.insert(group_size_).second) continue;
        replicas_ = w;
        used_.assign(problem_.cluster.nodes.size(), false);
        visits_.clear();
        open_groups();
      }
    }
  }

  std::optional<Estimate> best() {
    std::optional<Estimate> best;
    each([&](Estimate estimate) {
      if (!best || estimate.plan.sequences_per_s > best->plan.sequences_per_s) best = std::move(estimate);
    });
    return best;
  }

  std::int64_t tried() const { return tried_; }

 private:
  // Some stages, one after another on one island of a group of nodes.
  struct Visit {
    std::vector<int> nodes;
    int island = 0, stages = 0, room = 0;
  };

  std::vector<int> replica_counts() const {
    if (problem_.fixed.replicas) return {*problem_.fixed.replicas};
    int devices = 0, largest = 0;
    for (const Node& node : problem_.cluster.nodes) {
      for (const Island& island : node.islands) {
        devices += island.count;
        largest = std::max(largest, island.count);
      }
    }
    std::vector<int> counts;
    for (int w = 1; w <= devices; ++w) {
      bool multiple = false;
      for (const Node& node : problem_.cluster.nodes) {
        for (const Island& island : node.islands) multiple |= w % island.count == 0;
      }
      if (w <= largest || multiple) counts.push_back(w);
    }
    return counts;
  }

  bool is_tied() const {
    return std::ranges::any_of(problem_.layers, [](const LayerShape& layer) { return layer.tied > 0; });
  }

  bool like(int a, int b) const {
    const Node &x = problem_.cluster.nodes[a], &y = problem_.cluster.nodes[b];
    return x.islands == y.islands && x.link == y.link;
  }

  // How many nodes like each one hold a stage together; 0: they cannot.
  void choose_groups(int w, int spread) {
    group_size_.clear();
    for (int node = 0; node < std::ssize(problem_.cluster.nodes); ++node) {
      int alike = 0, largest = 0, size = 0;
      for (int other = 0; other < std::ssize(problem_.cluster.nodes); ++other) alike += like(node, other);
      for (const Island& island : problem_.cluster.nodes[node].islands)
        largest = std::max(largest, island.count);
      for (int k = w; k >= spread; --k) {
        if (w % k == 0 && w / k <= largest && k <= alike) size = k;
      }
      group_size_.push_back(size);
    }
  }

  // Another group of nodes comes next, or none.
  void open_groups() {
    if (!visits_.empty()) split_layers();
    if (stages() >= std::ssize(problem_.layers)) return;
    for (int node = 0; node < std::ssize(problem_.cluster.nodes); ++node) {
      if (used_[node] || group_size_[node] == 0) continue;
      std::vector<int> group;
      for (int other = 0; other < std::ssize(problem_.cluster.nodes); ++other) {
        if (!used_[other] && like(node, other) && std::ssize(group) < group_size_[node])
          group.push_back(other);
      }
      // Like nodes are as good as each other: the first of those left stand for all.
      if (std::ssize(group) < group_size_[node] || group.front() != node) continue;
      for (int member : group) used_[member] = true;
      std::vector<bool> islands_used(problem_.cluster.nodes[node].islands.size(), false);
      open_islands(group, islands_used, false);
      for (int member : group) used_[member] = false;
    }
  }

  void open_islands(const std::vector<int>& group, std::vector<bool>& islands_used, bool any) {
    if (any) open_groups();
    const Node& node = problem_.cluster.nodes[group.front()];
    const int per_node = replicas_ / static_cast<int>(group.size());
    for (int island = 0; island < std::ssize(node.islands); ++island) {
      const int room = node.islands[island].count / per_node;
      if (islands_used[island]) continue;
      islands_used[island] = true;
      for (int count = 1; count <= room && stages() + count <= std::ssize(problem_.layers); ++count) {
        visits_.push_back({.nodes = group, .island = island, .stages = count, .room = room});
        if (filled_where_it_must()) open_islands(group, islands_used, true);
        visits_.pop_back();
      }
      islands_used[island] = false;
    }
  }

  // The newest visit follows another in the pipeline; seen from the end it was opened before that, and only
  // an unlike one may be opened before it is full.
  bool filled_where_it_must() const {
    if (visits_.size() < 2) return true;
    const Visit &before = visits_[visits_.size() - 2], &last = visits_.back();
    const Node &x = problem_.cluster.nodes[before.nodes.front()],
               &y = problem_.cluster.nodes[last.nodes.front()];
    const bool like = x.islands[before.island].kind == y.islands[last.island].kind && x.link == y.link &&
                      before.nodes.size() == last.nodes.size() && before.room == last.room;
    return last.stages == last.room || !like;
  }

  int stages() const {
    return std::accumulate(visits_.begin(), visits_.end(), 0,
                           [](int sum, const Visit& visit) { return sum + visit.stages; });
  }

  void split_layers() {
    Plan plan{.shape = {.replicas = replicas_, .microbatch = 1, .microbatches = 1}};
    for (const Visit& visit : visits_) {
      const Node& node = problem_.cluster.nodes[visit.nodes.front()];
      const int per_node = replicas_ / static_cast<int>(visit.nodes.size());
      int device = 0;
      for (int island = 0; island < visit.island; ++island) device += node.islands[island].count;
      for (int i = 0; i < visit.stages; ++i, device += per_node) {
        StagePlan stage{.kind = node.islands[visit.island].kind};
        for (int replica = 0; replica < replicas_; ++replica) {
          stage.nodes.push_back(visit.nodes[replica / per_node]);
          stage.devices.push_back(device + replica % per_node);
        }
        plan.stages.push_back(stage);
      }
    }
    if (problem_.fixed.stages && std::ssize(plan.stages) != *problem_.fixed.stages) return;
    cut(plan, 0, 0);
  }

  void cut(Plan& plan, std::size_t stage, int layer) {
    const int layers = static_cast<int>(problem_.layers.size());
    const int after = static_cast<int>(plan.stages.size() - stage) - 1;
    plan.stages[stage].first_layer = layer;
    if (after == 0) {
      plan.stages[stage].last_layer = layers;
      choose_numbers(plan);
      return;
    }
    const std::vector<int>& split = problem_.fixed.split;
    for (int last = layer + 1; last <= layers - after; ++last) {
      if (!split.empty() && last - layer != split[stage]) continue;
      plan.stages[stage].last_layer = last;
      cut(plan, stage + 1, last);
    }
  }

  void choose_numbers(Plan& plan) {
    using schedule::Kind;
    for (Kind kind : {Kind::TwoBW, Kind::Flush, Kind::GPipe, Kind::Sequential}) {
      if (problem_.fixed.schedule && kind != *problem_.fixed.schedule) continue;
      for (int b : {1, 2, 4, 8}) {
        bool known = !problem_.fixed.microbatch || b == *problem_.fixed.microbatch;
        for (const StagePlan& stage : plan.stages) known &= column_of(problem_, stage.kind, b) != nullptr;
        const int most = problem_.batch / (b * replicas_), m = problem_.fixed.microbatches.value_or(most);
        if (!known || m == 0 || m > most) continue;
        const int boundaries = static_cast<int>(plan.stages.size()) - 1;
        for (int extra : {0, 1, 2}) {
          if (extra > 0 && (boundaries == 0 || problem_.fixed.extra)) continue;
          if (extra > 0 && (kind == Kind::GPipe || kind == Kind::Sequential)) continue;
          plan.shape.schedule = kind;
          plan.shape.microbatch = b;
          plan.shape.microbatches = m;
          plan.shape.extra = extra * boundaries;
          if (problem_.fixed.extra && (kind == Kind::TwoBW || kind == Kind::Flush))
            plan.shape.extra = *problem_.fixed.extra;
          plan.shape.stages = static_cast<int>(plan.stages.size());
          plan.shape.predict = problem_.fixed.predict.value_or(true);
          plan.shape.shard_state = problem_.fixed.shard_state.value_or(false);
          if (schedule::smallest_microbatches({.shape = plan.shape}) > m) continue;
          if (problem_.predict_well && !schedule::predicts_well({.shape = plan.shape})) continue;
          for (bool second : {true, false}) {
            plan.shape.double_buffer_gradients = second;
            const bool asked = problem_.fixed.double_buffer_gradients.value_or(second) == second;
            const bool may_be_late = kind == Kind::TwoBW && second && replicas_ == 1 && is_tied();
            for (bool late : {false, true}) {
              plan.shape.defer_tied_update = late;
              if (late ? may_be_late && asked : kind == Kind::TwoBW ? asked : second)
                choose_recomputation(plan);
            }
          }
        }
      }
    }
  }

  void choose_recomputation(Plan& plan) {
    if (problem_.fixed.recomputes(0)) {
      for (int r = 0; r < std::ssize(plan.stages); ++r)
        plan.stages[r].recompute = *problem_.fixed.recomputes(r);
      attempt(plan);
      return;
    }
    for (StagePlan& stage : plan.stages) stage.recompute = false;
    if (!all_recomputations_) {
      const Estimate without = evaluate(problem_, plan);
      for (std::size_t i = 0; i < plan.stages.size(); ++i) {
        const StagePlan& stage = without.plan.stages[i];
        plan.stages[i].recompute = stage.memory.total() > stage.capacity * (1 - problem_.margin);
      }
      attempt(plan);
      return;
    }
    for (unsigned choice = 0; choice < 1U << plan.stages.size(); ++choice) {
      for (std::size_t i = 0; i < plan.stages.size(); ++i) plan.stages[i].recompute = (choice >> i & 1U) != 0;
      attempt(plan);
    }
  }

  void attempt(const Plan& plan) {
    ++tried_;
    Estimate estimate = evaluate(problem_, plan);
    if (estimate.fits()) visit_(std::move(estimate));
  }

  const Problem& problem_;
  bool all_recomputations_;
  int replicas_ = 1;
  std::vector<int> group_size_;  // by node
  std::vector<bool> used_;
  std::vector<Visit> visits_;
  std::function<void(Estimate)> visit_;
  std::int64_t tried_ = 0;
};

}  // namespace twobw::planner
