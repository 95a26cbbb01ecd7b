#include "planning/planner/costs/stage_timing.h"

namespace twobw::planner {

schedule::Spec spec_of(const Setting& setting, int stages) {
  schedule::Spec spec{.shape = setting.shape};
  spec.shape.stages = stages;
  spec.shape.extra += setting.extra_a_boundary * (stages - 1);
  return spec;
}

bool stalls(const Setting& setting) {
  return setting.shape.schedule == schedule::Kind::Flush || setting.one_gradient();
}

const StateBytes& state_of(const Problem& problem, schedule::Kind kind) {
  return !schedule::is_delayed(kind) && problem.synchronous_state ? *problem.synchronous_state
                                                                  : problem.state;
}

const CostColumn* column_of(const Problem& problem, int kind, int microbatch) {
  for (const CostColumn& column : problem.costs[kind].columns) {
    if (column.microbatch == microbatch) return &column;
  }
  return nullptr;
}

double step_seconds(const CostTable& costs, const Setting& setting) {
  const double predict = setting.shape.predicts() ? costs.predict_per_parameter : 0;
  return (costs.step_per_parameter + predict) / setting.shape.owners();
}

// Reduce-scatter: half of an all-reduce.
double reduce_seconds(const Setting& setting, double all_reduce) {
  return setting.shape.shards() ? all_reduce / 2 : all_reduce;
}

double gather_seconds(const Problem& problem, const Setting& setting, const Site& site, double parameters) {
  if (!setting.shape.shards()) return 0;
  const StateBytes& state = state_of(problem, setting.shape.schedule);
  return all_reduce(problem.cluster.network, site, state.weights * parameters).seconds / 2;
}

double predict_seconds(const Problem& problem, const Setting& setting, const Site& site, double parameters) {
  if (!setting.shape.predicts()) return 0;
  return problem.costs[site.kind].predict_per_parameter * parameters / setting.shape.owners() +
         gather_seconds(problem, setting, site, parameters);
}

StageTiming timing_of(const Problem& problem, const Setting& setting, const Site& site, const StageLoad& load,
                      bool recompute) {
  const StateBytes& state = state_of(problem, setting.shape.schedule);
  const CostTable& costs = problem.costs[site.kind];
  // Tied weights are summed on all replicas.
  const double summed = load.parameters + (setting.shape.shards() ? load.tied : 0);
  const Transfer reduce = all_reduce(problem.cluster.network, site, state.gradients * summed);
  return {.forward = load.forward,
          .backward = load.backward + (recompute ? load.forward : 0),
          .step = step_seconds(costs, setting) * load.parameters +
                  gather_seconds(problem, setting, site, load.parameters),
          .predict = predict_seconds(problem, setting, site, load.parameters),
          .reduce = reduce_seconds(setting, reduce.seconds),
          .sum = reduce_seconds(setting, reduce.busy)};
}

Transfer tie_exchange(const Problem& problem, const Setting& setting, const LinkSpec& link, int at_once,
                      double tied) {
  return transfer(link, at_once, state_of(problem, setting.shape.schedule).gradients * tied);
}

}  // namespace twobw::planner
