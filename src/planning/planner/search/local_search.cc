#include "planning/planner/search/local_search.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "planning/planner/costs/simulated_cost.h"
#include "planning/planner/costs/stage_timing.h"
#include "planning/planner/search/places.h"
#include "planning/planner/search/space.h"

namespace twobw::planner {
namespace {

using schedule::Kind;

class Moves {
 public:
  Moves(const Problem& problem, const Plan& plan)
      : problem_(problem), plan_(plan), d_(static_cast<int>(std::ssize(plan.stages))) {
    const int boundaries = std::max(1, d_ - 1);
    extra_a_boundary_ = plan.shape.extra / boundaries;
  }

  std::vector<Plan> all() && {
    other_extras();
    other_gradients();
    other_steps();
    for (int r = 0; r + 1 < d_ && problem_.fixed.split.empty(); ++r) moved_boundaries(r);
    other_microbatches();
    if (!problem_.fixed.stages) {
      fewer_stages();
      more_stages();
    }
    return std::move(found_);
  }

 private:
  // Adds the plan with this many extra microbatches for every boundary, if the schedule allows it.
  void add(Plan plan, int extra_a_boundary) {
    const int d = static_cast<int>(std::ssize(plan.stages));
    plan.shape.stages = d;
    plan.shape.split = plan.shape.recompute = {};
    plan.shape.extra = fixed_extra(problem_, plan.shape.schedule) + extra_a_boundary * (d - 1);
    const schedule::Spec spec{.shape = plan.shape};
    if (schedule::smallest_microbatches(spec) > plan.shape.microbatches) return;
    if (problem_.predict_well && !schedule::predicts_well(spec)) return;
    found_.push_back(std::move(plan));
  }
  void add(Plan plan) { add(std::move(plan), problem_.fixed.extra ? 0 : extra_a_boundary_); }

  void other_extras() {
    if (d_ == 1) return;
    for (const int extra : extras_to_try(problem_, plan_.shape.schedule)) {
      if (extra != extra_a_boundary_ && !problem_.fixed.extra) add(plan_, extra);
    }
  }

  void other_gradients() {
    for (const bool second : second_gradients_to_try(problem_, plan_.shape.schedule)) {
      if (second == plan_.shape.double_buffer_gradients) continue;
      Plan plan = plan_;
      plan.shape.double_buffer_gradients = second;
      if (!second) plan.shape.defer_tied_update = false;
      add(std::move(plan));
    }
  }

  void other_steps() {
    for (const bool late : late_ties_to_try(problem_, plan_.shape)) {
      if (late == plan_.shape.defer_tied_update) continue;
      Plan plan = plan_;
      plan.shape.defer_tied_update = late;
      add(std::move(plan));
    }
  }

  // Bytes of the output of the layer before a boundary.
  double output(int boundary) const {
    const StagePlan& stage = plan_.stages.front();
    return column_of(problem_, stage.kind, plan_.shape.microbatch)->layers[boundary - 1].output;
  }

  void moved_boundaries(int r) {
    const StagePlan &before = plan_.stages[r], &after = plan_.stages[r + 1];
    for (const int step : {-1, 1}) {
      const int next = before.last_layer + step;
      const auto possible = [&](int at) { return at > before.first_layer && at < after.last_layer; };
      if (!possible(next)) continue;
      add_moved(r, next);
      int further = next;
      while (possible(further) && output(further) > output(before.last_layer)) further += step;
      if (further != next && possible(further)) add_moved(r, further);
    }
  }
  void add_moved(int r, int boundary) {
    Plan plan = plan_;
    plan.stages[r].last_layer = plan.stages[r + 1].first_layer = boundary;
    add(std::move(plan));
  }

  void other_microbatches() {
    const std::vector<int> sizes = microbatches_to_try(problem_);
    const auto here = std::ranges::find(sizes, plan_.shape.microbatch);
    const auto try_size = [&](int b) {
      const bool known = std::ranges::all_of(plan_.stages, [&](const StagePlan& stage) {
        return column_of(problem_, stage.kind, b) != nullptr;
      });
      Plan plan = plan_;
      plan.shape.microbatch = b;
      plan.shape.microbatches = microbatch_count(problem_, plan.shape.replicas, b);
      if (known && plan.shape.microbatches > 0) add(std::move(plan));
    };
    if (here == sizes.end()) return;
    if (here != sizes.begin()) try_size(*(here - 1));
    if (here + 1 != sizes.end()) try_size(*(here + 1));
  }

  // Ends of the stages' layers.
  std::vector<int> ends() const {
    std::vector<int> ends;
    for (const StagePlan& stage : plan_.stages) ends.push_back(stage.last_layer);
    return ends;
  }
  static void cut(const std::vector<int>& ends, Plan& plan) {
    for (std::size_t r = 0; r < ends.size(); ++r) {
      plan.stages[r].first_layer = r > 0 ? ends[r - 1] : 0;
      plan.stages[r].last_layer = ends[r];
    }
  }

  void fewer_stages() {
    for (int r = 0; r + 1 < d_; ++r) {
      Plan plan = plan_;
      plan.stages.erase(plan.stages.begin());
      std::vector<int> left = ends();
      left.erase(left.begin() + r);
      cut(left, plan);
      add(std::move(plan));
    }
  }

  void more_stages() {
    const std::optional<StagePlan> next = next_site();
    if (!next) return;
    for (int r = 0; r < d_; ++r) {
      const StagePlan& stage = plan_.stages[r];
      if (stage.last_layer - stage.first_layer < 2) continue;
      Plan plan = plan_;
      plan.stages.insert(plan.stages.begin(), *next);
      std::vector<int> more = ends();
      more.insert(more.begin() + r, halfway(stage));
      cut(more, plan);
      add(std::move(plan));
    }
  }

  // Layer that halves the stage's computation.
  int halfway(const StagePlan& stage) const {
    const std::vector<LayerCost>& layers = column_of(problem_, stage.kind, plan_.shape.microbatch)->layers;
    const auto compute = [&](int layer) { return layers[layer].forward + layers[layer].backward; };
    double all = 0, before = 0;
    for (int layer = stage.first_layer; layer < stage.last_layer; ++layer) all += compute(layer);
    int middle = stage.first_layer;
    while (middle < stage.last_layer - 1 && before + compute(middle) / 2 < all / 2)
      before += compute(middle++);
    return std::clamp(middle, stage.first_layer + 1, stage.last_layer - 1);
  }

  // Devices for a stage before the first: on its nodes, else on unused ones.
  std::optional<StagePlan> next_site() const {
    const StagePlan& first = plan_.stages.front();
    std::vector<int> nodes = first.nodes;
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    if (auto site = site_on(nodes)) return site;
    std::vector<int> unused;
    for (int node = 0; node < std::ssize(problem_.cluster.nodes); ++node) {
      if (std::ranges::none_of(plan_.stages, [&](const StagePlan& stage) { return holds(stage, node); }))
        unused.push_back(node);
    }
    for (std::size_t i = 0; i < unused.size(); ++i) {
      std::vector<int> group;
      for (std::size_t j = i; j < unused.size() && group.size() < nodes.size(); ++j) {
        if (alike(problem_.cluster.nodes[unused[i]], problem_.cluster.nodes[unused[j]]))
          group.push_back(unused[j]);
      }
      if (group.size() < nodes.size()) continue;
      if (auto site = site_on(group)) return site;
    }
    return std::nullopt;
  }
  static bool holds(const StagePlan& stage, int node) {
    return std::ranges::find(stage.nodes, node) != stage.nodes.end();
  }

  // The first devices of like nodes that are free, as many on each as a stage takes.
  std::optional<StagePlan> site_on(const std::vector<int>& nodes) const {
    const int w = plan_.shape.replicas, per_node = w / static_cast<int>(nodes.size());
    int used_before = 0;  // devices of the node's islands before this one
    for (const Island& island : problem_.cluster.nodes[nodes.front()].islands) {
      int used = 0;
      for (const StagePlan& stage : plan_.stages) {
        for (int i = 0; i < w; ++i) {
          const int device = stage.devices[i] - used_before;
          if (stage.nodes[i] == nodes.front() && device >= 0 && device < island.count)
            used = std::max(used, device + 1);
        }
      }
      const bool known = column_of(problem_, island.kind, plan_.shape.microbatch) != nullptr;
      if (known && used + per_node <= island.count) {
        StagePlan stage{.kind = island.kind};
        for (int i = 0; i < w; ++i) {
          stage.nodes.push_back(nodes[i / per_node]);
          stage.devices.push_back(used_before + used + i % per_node);
        }
        return stage;
      }
      used_before += island.count;
    }
    return std::nullopt;
  }

  const Problem& problem_;
  const Plan& plan_;
  const int d_;
  int extra_a_boundary_ = 0;
  std::vector<Plan> found_;
};

// Recomputes only where memory demands it, as the search does.
Estimate fitted(const Problem& problem, Plan plan) {
  for (int r = 0; r < std::ssize(plan.stages); ++r)
    plan.stages[r].recompute = problem.fixed.recomputes(r).value_or(false);
  Estimate estimate = evaluate(problem, std::move(plan));
  if (estimate.fits()) return estimate;
  for (int r = 0; r < std::ssize(estimate.plan.stages); ++r) {
    StagePlan& stage = estimate.plan.stages[r];
    const bool lacks = excess(stage.memory.total(), stage.capacity * (1 - problem.margin)) > 0;
    stage.recompute = problem.fixed.recomputes(r).value_or(lacks);
  }
  return evaluate(problem, std::move(estimate.plan));
}

// Upper bound of tokens a second, with free transfers.
double at_most(const Plan& plan) {
  const double m = plan.shape.microbatches;
  const bool drains = plan.shape.schedule != Kind::TwoBW;
  double before = 0, forward = 0, backward = 0,
         least = 0;  // before: of one microbatch, stages before this one
  for (const StagePlan& stage : plan.stages) {
    const double compute = stage.forward + stage.backward;
    least = std::max(least, (drains ? before : 0) + m * compute + stage.step);
    before += compute;
    forward = std::max(forward, stage.forward);
    backward = std::max(backward, stage.backward);
  }
  if (plan.shape.schedule == Kind::GPipe) least = std::max(least, before + (m - 1) * (forward + backward));
  if (plan.shape.schedule == Kind::Sequential) least = std::max(least, m * before);
  return plan.tokens_per_s * plan.update_seconds / least;
}

// Whether it has found a better one.
bool step(const Problem& problem, Estimate& estimate, double& work) {
  constexpr double kWorthIt = 1e-3;
  const double enough = estimate.plan.simulated_tokens_per_s * (1 + kWorthIt);
  for (Plan& plan : local_moves(problem, estimate.plan)) {
    Estimate next = fitted(problem, std::move(plan));
    if (!next.fits() || at_most(next.plan) < enough) continue;
    work -= work_of(next.plan);
    if (work < 0) return false;
    next.plan.simulated_tokens_per_s = simulated_tokens_per_s(problem, next.plan);
    if (next.plan.simulated_tokens_per_s < enough) continue;
    estimate = std::move(next);
    return true;
  }
  return false;
}

}  // namespace

std::vector<Plan> local_moves(const Problem& problem, const Plan& plan) {
  return Moves(problem, plan).all();
}

double work_of(const Plan& plan) {
  return static_cast<double>(plan.stages.size()) * plan.shape.microbatches;
}

void local_search(const Problem& problem, Estimate& estimate, double& work) {
  constexpr double kWorthwhile = 8;  // moves, at least
  while (work > kWorthwhile * work_of(estimate.plan) && step(problem, estimate, work)) {
  }
}

}  // namespace twobw::planner
