// Costs of a stage for the inner loop of the search. memory_model.h and stage_timing.h are linear in a
// stage's load, so their slopes are computed once for every site and number of stages after it.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "planning/planner/costs/estimate.h"
#include "planning/planner/costs/stage_timing.h"
#include "planning/planner/search/places.h"

namespace twobw::planner {

class StageCosts {
 public:
  // Stages with fewer than `stages` after them, in pipelines of any number of stages or of `exactly` this
  // number. For any number, the microbatches in flight must depend only on the stages after: no fixed extra.
  StageCosts(const Problem& problem, const Setting& setting, const Places& places, int stages,
             std::optional<int> exactly);

  int in_flight(int after) const { return in_flight_[after]; }

  // Bytes beyond the capacity less the margin; at most 0: it fits. Depends on the number of stages after it,
  // and on whether it is the first.
  double over(int site, int after, bool first, const StageLoad& load, bool recompute) const {
    const MemoryRates& rates = memory_[4 * after + 2 * (first ? 1 : 0) + (recompute ? 1 : 0)];
    return excess(rates.of(load), sites_[site].capacity);
  }
  // Whether it exceeds its memory by more than `by`, however many layers are added in front.
  bool hopeless(int site, int after, const StageLoad& load, double by) const {
    return exceeds(site, state_[after], in_flight_[after], load, by);
  }
  // Overload for any position in a pipeline and any number of extra microbatches in flight.
  bool hopeless(int site, const StageLoad& load) const {
    return exceeds(site, least_kept_, in_flight_.front(), load, 0);
  }

  // Without the transfer to the next stage. `tie`: the exchange of a tied weight counts here;
  // `together`: all stages from here on share their nodes.
  StageTiming timing(int site, const StageLoad& load, bool recompute, bool tie, bool together) const {
    const SiteRates& rates = sites_[site];
    const double summed = load.parameters + (rates.counts_tied ? load.tied : 0);
    StageTiming timing{.forward = load.forward,
                       .backward = load.backward + (recompute ? load.forward : 0),
                       .step = rates.gather_latency + rates.step * load.parameters,
                       .predict = rates.predict_latency + rates.predict * load.parameters,
                       .reduce = rates.reduce_latency + rates.reduce * summed,
                       .sum = rates.sum * summed};
    if (tie) {
      const Transfer& exchange = together ? rates.tie_inside : rates.tie_between;
      timing.tie = exchange.seconds;
      timing.tie_busy = exchange.busy;
      timing.tie_shares = shares(site, !together);
      timing.tie_leaves = !together;
    }
    return timing;
  }
  // Seconds that the exchange occupies the link at its other end, on another node.
  double tie_busy(int site) const { return sites_[site].tie_between.busy; }
  // Whether transfers that leave the node, or stay in it, pass a shared link.
  bool shares(int site, bool leaves) const {
    return leaves ? problem_.cluster.network.shared : places_.sites()[site].inside.shared;
  }

  // Seconds and use of the link, from the stage at `site` to the one after it.
  Transfer send(int site, int next_site, bool same_group, double bytes) const;

  // Lower bound of the bytes beyond the capacity, for a stage with `parameters` parameters.
  double least_over(int site, double parameters) const {
    return least_state_ * parameters - sites_[site].capacity;
  }

  double largest_capacity() const;
  // Bytes per parameter of one version with its gradient and optimizer state.
  double least_state() const { return least_state_; }

 private:
  static constexpr double kRounding = 1e-9;

  bool exceeds(int site, double state, int in_flight, const StageLoad& load, double by) const {
    const double least = state * (load.parameters - load.tied) +
                         (may_recompute_ ? 1 : in_flight) * load.saved_bytes + load.working;
    return least - sites_[site].capacity > by + kRounding * least;
  }

  // Bytes for each unit of the load.
  struct MemoryRates {
    StageLoad computing, summing_ties;
    double of(const StageLoad& load) const {
      const double computed = product(computing, load);
      return load.tied > 0 ? std::max(computed, product(summing_ties, load)) : computed;
    }
    static double product(const StageLoad& slope, const StageLoad& load) {
      return slope.parameters * load.parameters + slope.gradient_parameters * load.gradient_parameters +
             slope.saved_bytes * load.saved_bytes + slope.working * load.working + slope.input * load.input +
             slope.output * load.output + slope.tokens * load.tokens + slope.tied * load.tied;
    }
  };
  struct SiteRates {
    double capacity = 0;
    double gather_latency = 0, step = 0, predict_latency = 0, predict = 0;
    double reduce_latency = 0, reduce = 0, sum = 0;
    bool counts_tied = false;  // tied weights are summed on all replicas
    Transfer tie_inside, tie_between;
  };

  const Problem& problem_;
  const Places& places_;
  bool may_recompute_;
  double least_state_;
  double least_kept_;                // bytes a parameter, of any stage at least
  std::vector<int> in_flight_;       // by stages after
  std::vector<double> state_;        // bytes a parameter at least, by stages after
  std::vector<MemoryRates> memory_;  // by stages after, being the first, recomputing
  std::vector<SiteRates> sites_;
};

}  // namespace twobw::planner
