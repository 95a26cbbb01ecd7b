// A walk over the cluster, one stage per step.
#include "planning/planner/search/places.h"

#include <algorithm>
#include <compare>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <map>

namespace twobw::planner {
namespace {

int largest_island(const Node& node) {
  int largest = 0;
  for (const Island& island : node.islands) largest = std::max(largest, island.count);
  return largest;
}

std::vector<std::vector<int>> like_nodes(const Cluster& cluster) {
  std::vector<std::vector<int>> result;
  for (int i = 0; i < std::ssize(cluster.nodes); ++i) {
    const auto same = [&](const std::vector<int>& nodes) {
      return alike(cluster.nodes[nodes.front()], cluster.nodes[i]);
    };
    const auto found = std::find_if(result.begin(), result.end(), same);
    if (found == result.end()) {
      result.push_back({i});
    } else {
      found->push_back(i);
    }
  }
  return result;
}

// k of the file's comment; 0: these nodes cannot hold a stage.
int nodes_of_group(const Node& node, int available, int replicas, int spread) {
  for (int k = spread; k <= std::min(replicas, available); ++k) {
    if (replicas % k == 0 && replicas / k <= largest_island(node)) return k;
  }
  return 0;
}

std::vector<GroupKind> find_groups(const Cluster& cluster, int replicas, int spread) {
  std::vector<GroupKind> kinds;
  for (std::vector<int>& nodes : like_nodes(cluster)) {
    const int available = static_cast<int>(nodes.size());
    const int k = nodes_of_group(cluster.nodes[nodes.front()], available, replicas, spread);
    if (k > 0) kinds.push_back({.nodes = std::move(nodes), .spread = k, .count = available / k});
  }
  return kinds;
}

}  // namespace

bool alike(const Node& a, const Node& b) {
  return a.islands == b.islands && a.link == b.link;
}

struct Places::Where {
  std::vector<std::int16_t> opened;  // groups of each kind
  int kind = -1;
  std::uint32_t used = 0;  // islands of the present group
  int island = 0, position = 0, stages = 0;
  int direction = 0;  // of BySpeed

  auto operator<=>(const Where&) const =
      default;  // NOLINT(modernize-use-nullptr): a false alarm of clang-tidy 14
};

Places::Places(const Cluster& cluster, const std::vector<double>& speeds, int replicas, int spread,
               int stages, int most)
    : cluster_(cluster), replicas_(replicas), kinds_(find_groups(cluster, replicas, spread)) {
  const auto speed = [&](const GroupKind& kind) {
    double fastest = 0;
    for (const Island& island : cluster.nodes[kind.nodes.front()].islands) {
      fastest = std::max(fastest, speeds[island.kind]);
    }
    return fastest;
  };
  std::stable_sort(kinds_.begin(), kinds_.end(),
                   [&](const GroupKind& a, const GroupKind& b) { return speed(a) > speed(b); });

  for (int kind = 0; kind < std::ssize(kinds_); ++kind) {
    first_seat_.push_back(static_cast<int>(sites_.size()));
    const int k = kinds_[kind].spread;
    for (const Island& island : node(kind).islands) {
      sites_.push_back(
          {.kind = island.kind, .nodes = k, .per_node = replicas / k, .inside = node(kind).link});
    }
  }
  // On like islands there is one way only.
  if (sites_.size() <= 1) most = std::numeric_limits<int>::max();
  for (Limit limit : {Limit::None, Limit::FilledIslands, Limit::FilledKinds, Limit::BySpeed}) {
    if (build(limit, stages, limit == Limit::BySpeed ? std::numeric_limits<int>::max() : most)) return;
  }
}

int Places::stages_on(int kind, int island) const {
  return node(kind).islands[island].count / (replicas_ / kinds_[kind].spread);
}

bool Places::may_leave(const Where& where, Limit limit, int kind, int island) const {
  const int room = stages_on(where.kind, where.island);
  if (where.position + 1 == room) return true;
  const Site& here = site_of(where.kind, where.island);
  const Site& there = site_of(kind, island);
  const bool like = here.kind == there.kind && here.nodes == there.nodes && here.inside == there.inside &&
                    room == stages_on(kind, island);
  return limit == Limit::None && !like;
}

bool Places::may_open(const Where& where, Limit limit, int kind) const {
  if (where.opened[kind] == kinds_[kind].count) return false;
  if (where.kind < 0 || where.kind == kind) return true;
  const bool used_up = where.opened[where.kind] == kinds_[where.kind].count;
  switch (limit) {
    case Limit::None:
    case Limit::FilledIslands:
      return true;
    case Limit::FilledKinds:
      return used_up;
    case Limit::BySpeed:
      return used_up && std::abs(kind - where.kind) == 1 && (kind - where.kind) * where.direction >= 0;
  }
  return false;
}

void Places::open_groups(const Where& where, Limit limit, std::vector<Where>& found) const {
  for (int kind = 0; kind < std::ssize(kinds_); ++kind) {
    if (!may_open(where, limit, kind)) continue;
    for (int island = 0; island < std::ssize(node(kind).islands); ++island) {
      if (stages_on(kind, island) == 0) continue;
      if (where.kind >= 0 && !may_leave(where, limit, kind, island)) continue;
      Where next = where;
      ++next.opened[kind];
      next.used = 1U << island;
      next.island = island;
      next.position = 0;
      if (limit == Limit::BySpeed && where.kind >= 0 && where.kind != kind)
        next.direction = kind - where.kind;
      next.kind = kind;
      ++next.stages;
      found.push_back(std::move(next));
    }
  }
}

// All next places.
std::vector<Places::Where> Places::after(const Where& where, Limit limit) const {
  std::vector<Where> found;
  if (where.kind >= 0) {
    if (where.position + 1 < stages_on(where.kind, where.island)) {
      Where next = where;
      ++next.position;
      ++next.stages;
      found.push_back(std::move(next));
    }
    for (int island = 0; island < std::ssize(node(where.kind).islands); ++island) {
      if ((where.used >> island & 1U) != 0 || stages_on(where.kind, island) == 0) continue;
      if (!may_leave(where, limit, where.kind, island)) continue;
      Where next = where;
      next.used |= 1U << island;
      next.island = island;
      next.position = 0;
      ++next.stages;
      found.push_back(std::move(next));
    }
  }
  open_groups(where, limit, found);
  return found;
}

bool Places::build(Limit limit, int stages, int most) {
  places_.clear();
  places_.emplace_back();
  std::map<Where, int> layer = {{Where{.opened = std::vector<std::int16_t>(kinds_.size())}, 0}};
  for (int placed = 0; placed < stages && !layer.empty(); ++placed) {
    std::map<Where, int> next_layer;
    for (const auto& [where, place] : layer) {
      for (Where& next : after(where, limit)) {
        const bool same_group = where.kind == next.kind && where.opened == next.opened;
        auto [found, added] = next_layer.try_emplace(std::move(next), static_cast<int>(places_.size()));
        const Where& there = found->first;
        places_[place].next.push_back({.place = found->second, .same_group = same_group});
        if (!added) continue;
        int groups = 0;
        for (int opened : there.opened) groups += opened;
        places_.push_back({.stages = there.stages,
                           .site = first_seat_[there.kind] + there.island,
                           .group_kind = there.kind,
                           .group = there.opened[there.kind] - 1,
                           .island = there.island,
                           .position = there.position,
                           .groups = groups});
        if (std::ssize(places_) > most) return false;
      }
    }
    layer = std::move(next_layer);
  }
  for (std::size_t i = places_.size(); i-- > 0;) {
    for (const Advance& advance : places_[i].next) {
      places_[i].reach = std::max(places_[i].reach, 1 + places_[advance.place].reach);
    }
  }
  switch (limit) {
    case Limit::None:
      break;
    case Limit::FilledIslands:
      restriction_ = "every island but the last is filled";
      break;
    case Limit::FilledKinds:
      restriction_ = "all nodes of a kind but the last are used, one after another";
      break;
    case Limit::BySpeed:
      restriction_ = "nodes are used in the order of their speed";
      break;
  }
  return true;
}

void Places::site(int place, StagePlan& stage) const {
  const Place& where = places_[place];
  const Site& site = sites_[where.site];
  const GroupKind& kind = kinds_[where.group_kind];
  int first_device = where.position * site.per_node;
  for (int island = 0; island < where.island; ++island) {
    first_device += node(where.group_kind).islands[island].count;
  }
  stage.kind = site.kind;
  stage.nodes.clear();
  stage.devices.clear();
  for (int replica = 0; replica < replicas_; ++replica) {
    stage.nodes.push_back(kind.nodes[where.group * site.nodes + replica / site.per_node]);
    stage.devices.push_back(first_device + replica % site.per_node);
  }
}

std::vector<int> distinct_spreads(const Cluster& cluster, int replicas) {
  std::vector<int> result;
  std::vector<std::vector<int>> seen;
  for (int spread = 1; spread <= replicas && spread <= std::ssize(cluster.nodes); ++spread) {
    if (replicas % spread != 0) continue;
    std::vector<int> sizes;
    for (const GroupKind& kind : find_groups(cluster, replicas, spread)) {
      sizes.push_back(kind.nodes.front());
      sizes.push_back(kind.spread);
    }
    if (sizes.empty() || std::find(seen.begin(), seen.end(), sizes) != seen.end()) continue;
    seen.push_back(std::move(sizes));
    result.push_back(spread);
  }
  return result;
}

}  // namespace twobw::planner
