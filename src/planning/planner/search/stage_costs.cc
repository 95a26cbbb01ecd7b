#include "planning/planner/search/stage_costs.h"

#include <algorithm>

#include "core/base/error.h"

namespace twobw::planner {

StageCosts::StageCosts(const Problem& problem, const Setting& setting, const Places& places, int stages,
                       std::optional<int> exactly)
    : problem_(problem),
      places_(places),
      may_recompute_(problem.fixed.recomputing ? !problem.fixed.recomputing->empty()
                                               : problem.fixed.recompute.value_or(true)) {
  const StateBytes& state = state_of(problem, setting.shape.schedule);
  least_state_ = state.weights + state.gradients + (state.master + state.optimizer) / setting.shape.owners();

  const auto slopes = [&](const schedule::Spec& spec, int stage, bool recompute) {
    const auto slope = [&](Moment moment, double StageLoad::*field) {
      StageLoad unit;
      unit.*field = 1;
      return footprint_at(moment, spec, stage, unit, state, recompute).total();
    };
    MemoryRates rates;
    for (double StageLoad::*field :
         {&StageLoad::parameters, &StageLoad::gradient_parameters, &StageLoad::saved_bytes,
          &StageLoad::working, &StageLoad::input, &StageLoad::output, &StageLoad::tokens, &StageLoad::tied}) {
      rates.computing.*field = slope(Moment::Computing, field);
      rates.summing_ties.*field = slope(Moment::SummingTies, field);
    }
    return rates;
  };
  for (int after = 0; after < stages; ++after) {
    // As any stage but the first, and as the first.
    for (int before : {1, 0}) {
      const int d = exactly.value_or(before + 1 + after), r = d - 1 - after;
      const schedule::Spec spec = spec_of(setting, d);
      const int in_flight = schedule::in_flight_bound(spec, r);
      if (before == 1) in_flight_.push_back(in_flight);
      TWOBW_ASSERT(in_flight == in_flight_.back(), "{} or {} in flight with {} stages after", in_flight,
                   in_flight_.back(), after);
      for (bool recompute : {false, true}) memory_.push_back(slopes(spec, r, recompute));
      const StageLoad& slope = memory_.back().computing;  // recomputing or not
      const double state_bytes = slope.parameters + slope.gradient_parameters;
      if (before == 1) state_.push_back(state_bytes);
      state_.back() = std::min(state_.back(), state_bytes);
    }
  }
  // With more in flight the first stage may have no time to wait, and so no second gradient buffer.
  Setting hasty = setting;
  hasty.shape.double_buffer_gradients = false;
  const StageLoad slope = slopes(spec_of(hasty, exactly.value_or(1)), 0, false).computing;
  least_kept_ = slope.parameters + slope.gradient_parameters;
  for (double bytes : state_) least_kept_ = std::min(least_kept_, bytes);

  double tied = 0;
  for (const LayerShape& layer : problem.layers) tied = std::max(tied, layer.tied);
  const LinkSpec& network = problem.cluster.network;
  for (const Site& site : places.sites()) {
    SiteRates rates;
    rates.capacity = problem.cluster.kinds[site.kind].memory * (1 - problem.margin);
    rates.gather_latency = gather_seconds(problem, setting, site, 0);
    rates.step = step_seconds(problem.costs[site.kind], setting) + gather_seconds(problem, setting, site, 1) -
                 rates.gather_latency;
    rates.predict_latency = predict_seconds(problem, setting, site, 0);
    rates.predict = predict_seconds(problem, setting, site, 1) - rates.predict_latency;
    const Transfer reduce = all_reduce(network, site, state.gradients);
    rates.reduce_latency = reduce_seconds(setting, all_reduce(network, site, 0).seconds);
    rates.reduce = reduce_seconds(setting, reduce.seconds) - rates.reduce_latency;
    rates.sum = reduce_seconds(setting, reduce.busy);
    rates.counts_tied = setting.shape.shards();
    rates.tie_inside = tie_exchange(problem, setting, site.inside, site.per_node, tied);
    rates.tie_between = tie_exchange(problem, setting, network, site.per_node, tied);
    sites_.push_back(rates);
  }
}

Transfer StageCosts::send(int site, int next_site, bool same_group, double bytes) const {
  const Site& from = places_.sites()[site];
  const Site& to = places_.sites()[next_site];
  return same_group ? transfer(from.inside, from.per_node, bytes)
                    : transfer(problem_.cluster.network, std::max(from.per_node, to.per_node), bytes);
}

double StageCosts::largest_capacity() const {
  double largest = 0;
  for (const SiteRates& site : sites_) largest = std::max(largest, site.capacity);
  return largest;
}

}  // namespace twobw::planner
