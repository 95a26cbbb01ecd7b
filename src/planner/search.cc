#include "planner/search.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "planner/loads.h"
#include "planner/partition.h"
#include "planner/placement.h"
#include "planner/space.h"

namespace twobw::planner {
namespace {

using schedule::Kind;

double throughput(const std::optional<Estimate>& estimate) {
  return estimate ? estimate->plan.sequences_per_s : 0;
}

// Seconds that an update must stay below to be better.
double update_to_beat(const Setting& setting, const std::optional<Estimate>& best) {
  if (!best) return kUnlimited;
  return 1.0 * setting.microbatch * setting.microbatches * setting.replicas / throughput(best);
}

int devices(const Plan& plan) {
  return plan.replicas * static_cast<int>(plan.stages.size());
}

// The order of search.h, for plans that fit.
bool better(const Estimate& a, const Estimate& b) {
  const double faster = a.plan.sequences_per_s - b.plan.sequences_per_s;
  if (std::abs(faster) > kSame * b.plan.sequences_per_s) return faster > 0;
  const double less = b.footprint - a.footprint;
  if (std::abs(less) > kSame * b.footprint) return less > 0;
  return devices(a.plan) < devices(b.plan);
}

std::string in_words(double bytes) {
  constexpr double mib = 1 << 20, gib = 1 << 30;
  return bytes < gib ? fmt::format("{:.1f} MiB", bytes / mib) : fmt::format("{:.2f} GiB", bytes / gib);
}

class Search {
 public:
  Search(const Problem& problem, const SearchOptions& options) : problem_(problem), options_(options) {
    for (int b : microbatches_to_try(problem)) {
      for (int kind = 0; kind < std::ssize(problem.cluster.kinds); ++kind) {
        const CostColumn* column = column_of(problem, kind, b);
        if (column != nullptr) owned_.push_back(std::make_unique<Loads>(problem.layers, *column));
        loads_[b].push_back(column != nullptr ? owned_.back().get() : nullptr);
      }
    }
    speeds_.assign(problem.cluster.kinds.size(), 0);
    for (const auto& [b, by_kind] : loads_) {
      for (std::size_t kind = 0; kind < by_kind.size(); ++kind) {
        if (by_kind[kind] == nullptr) continue;
        const StageLoad all = by_kind[kind]->of(0, by_kind[kind]->layers());
        speeds_[kind] = std::max(speeds_[kind], b / (all.forward + all.backward));
      }
    }
  }

  SearchResult run() {
    for (int replicas : replicas_to_try(problem_)) search_replicas(replicas);
    return std::move(result_);
  }

 private:
  // One way of spreading replicas and one microbatch size.
  struct Cell {
    const Places* places;
    Setting setting;
    double at_most;     // sequences a second
    bool promising = false;
  };

  void search_replicas(int replicas) {
    std::vector<std::unique_ptr<Places>> places;
    const int layers = static_cast<int>(problem_.layers.size());
    const int stages = problem_.stages.value_or(layers);
    const int most = options_.most_places > 0 ? options_.most_places : std::max(2 * layers, 30000 / layers);
    for (int spread : distinct_spreads(problem_.cluster, replicas)) {
      places.push_back(std::make_unique<Places>(problem_.cluster, speeds_, replicas, spread, stages, most));
      if (places.back()->restriction().empty()) continue;
      result_.exact = false;
      result_.restriction = places.back()->restriction();
    }
    for (Kind schedule : schedules_to_try(problem_)) search_family(schedule, replicas, places);
  }

  void search_family(Kind schedule, int replicas, const std::vector<std::unique_ptr<Places>>& places) {
    Family family{.schedule = schedule, .replicas = replicas};
    std::vector<Cell> cells;
    for (const auto& [b, loads] : loads_) {
      const int m = microbatch_count(problem_, replicas, b);
      if (m == 0) continue;
      for (const auto& way : places) {
        const Setting setting{.schedule = schedule,
                              .replicas = replicas,
                              .microbatch = b,
                              .microbatches = m,
                              .extra = problem_.extra.value_or(0)};
        const double at_most = Partition(problem_, setting, *way, loads).most_throughput();
        if (at_most > 0) cells.push_back({.places = way.get(), .setting = setting, .at_most = at_most});
      }
    }
    // A good plan to beat spares much work: first a rough look everywhere.
    std::stable_sort(cells.begin(), cells.end(),
                     [](const Cell& a, const Cell& b) { return a.at_most > b.at_most; });
    const Cell* winner = nullptr;
    for (Cell& cell : cells) {
      if (cell.at_most <= throughput(family.best)) continue;
      Partition partition(problem_, cell.setting, *cell.places, loads_.at(cell.setting.microbatch));
      std::optional<Estimate> plan = partition.quick(update_to_beat(cell.setting, family.best));
      result_.stages += partition.considered();
      cell.promising = plan.has_value();
      if (throughput(plan) <= throughput(family.best)) continue;
      family.best = std::move(plan);
      winner = &cell;
    }
    for (const Cell& cell : cells) {
      if (search_cell(cell, family.best)) winner = &cell;
    }
    if (family.best) {
      family.verdict = Verdict::Slower;
      const Setting setting = setting_of(family.best->plan);
      Partition partition(problem_, setting, *winner->places, loads_.at(setting.microbatch));
      family.best = partition.frugal(*family.best);
    } else if (!cells.empty()) {
      find_closest(cells, family);
    } else {
      family.reason = microbatch_count(problem_, replicas, loads_.begin()->first) == 0
                          ? fmt::format("a batch of {} is too small for {} replicas", problem_.batch, replicas)
                          : "no way to place it";
    }
    result_.families.push_back(std::move(family));
  }

  // Improves `best` by the plans of the cell. Returns whether there was a better one.
  bool search_cell(const Cell& cell, std::optional<Estimate>& best) {
    if (!cell.promising || cell.at_most <= throughput(best) * (1 + kSame)) return false;
    bool improved = false;
    const LoadsByKind& loads = loads_.at(cell.setting.microbatch);
    const auto below = [&] { return update_to_beat(cell.setting, best); };
    const auto improve = [&](Partition& partition) {
      ++result_.settings;
      std::optional<Estimate> found = partition.fastest(below());
      if (found) {
        best = std::move(found);
        improved = true;
      }
      result_.stages += partition.considered();
    };

    Partition base(problem_, cell.setting, *cell.places, loads);
    improve(base);
    const std::vector<int> extras =
        extras_to_try(problem_, cell.setting, cell.places->all().front().reach);
    if (extras.size() < 2 || !best || !base.may_beat(below())) return improved;
    for (std::size_t i = 1; i < extras.size(); ++i) {
      Setting setting = cell.setting;
      setting.extra = extras[i];
      Partition more(problem_, setting, *cell.places, loads);
      improve(more);
    }
    return improved;
  }

  // The smallest microbatches need least memory.
  void find_closest(const std::vector<Cell>& cells, Family& family) {
    int smallest = cells.front().setting.microbatch;
    for (const Cell& cell : cells) smallest = std::min(smallest, cell.setting.microbatch);
    for (const Cell& cell : cells) {
      if (cell.setting.microbatch != smallest) continue;
      Partition partition(problem_, cell.setting, *cell.places, loads_.at(cell.setting.microbatch));
      std::optional<Estimate> closest = partition.least_over();
      if (closest && (!family.best || closest->over < family.best->over)) family.best = std::move(closest);
      result_.stages += partition.considered();
    }
    if (!family.best) {
      family.reason = fmt::format("no number of stages is allowed with {} microbatches an update",
                                  cells.front().setting.microbatches);
      return;
    }
    family.verdict = Verdict::Memory;
    family.reason = fmt::format("memory of stage {} by {}", family.best->tightest,
                                in_words(family.best->over));
  }

  const Problem& problem_;
  const SearchOptions& options_;
  std::vector<std::unique_ptr<Loads>> owned_;
  std::map<int, LoadsByKind> loads_;  // by microbatch size
  std::vector<double> speeds_;
  SearchResult result_;
};

// Those that fit first, the best of them on top; then by how much they miss.
bool before(const Family& a, const Family& b) {
  if (a.verdict != b.verdict) return a.verdict < b.verdict;
  if (a.verdict == Verdict::Slower) return better(*a.best, *b.best);
  return a.verdict == Verdict::Memory && a.best->over < b.best->over;
}

void rank(SearchResult& result) {
  std::stable_sort(result.families.begin(), result.families.end(), before);
  if (result.families.empty() || result.families.front().verdict != Verdict::Slower) return;
  result.best = result.families.front().best;
  for (Family& family : result.families) {
    if (family.verdict != Verdict::Slower) continue;
    family.ratio = throughput(family.best) / throughput(result.best);
    family.reason = fmt::format("{:.1f}% less throughput", 100 * (1 - family.ratio));
  }
  result.families.front().verdict = Verdict::Best;
  result.families.front().reason.clear();
}

std::optional<Shortfall> explain_shortfall(const Problem& problem, const SearchResult& result) {
  std::optional<Shortfall> shortfall;
  for (const Family& family : result.families) {
    if (family.verdict != Verdict::Memory) continue;
    if (!shortfall || family.best->over < shortfall->closest.over) shortfall = {.closest = *family.best};
  }
  return shortfall;
}

}  // namespace

std::string name(const Family& family) {
  return fmt::format("{}, {} replica{}", schedule::name(family.schedule), family.replicas,
                     family.replicas == 1 ? "" : "s");
}

SearchResult search(const Problem& problem, const SearchOptions& options) {
  validate(problem);
  SearchResult result = Search(problem, options).run();
  rank(result);
  if (!result.best) result.shortfall = explain_shortfall(problem, result);
  return result;
}

}  // namespace twobw::planner
