// Chooses the simplest among plans of nearly the same speed, after the search.
#pragma once

#include "planning/planner/search/search.h"

namespace twobw::planner {

struct Preferences {
  // Prefers a plan without delayed updates, then one with fewer stages, if that costs at most this fraction
  // of the throughput.
  double tolerance = 0.02;
  // Measured times vary between microbatches, and with only as many in flight as stages, each delay stalls
  // all of them. One more in flight for every boundary absorbs delays, if memory and m allow it and e is
  // free.
  bool cushion = true;
  // Avoids a plan whose first stage predicts from less than half of a batch, if that costs at most this
  // fraction of the throughput, and at most ten times the tolerance.
  double predict_well = 0.2;
};

// Searches and chooses by the preferences. Every candidate that may be chosen has its best plan.
SearchResult search_with(const Problem& problem, const Preferences& preferences, SearchOptions options = {});

// Plans for trials: the chosen plan, and others whose rate is lower by at most the fraction `near`. First the
// best of every candidate, then the best of every candidate with its second microbatch size, and so on; at
// most `most` plans, each a different run.
std::vector<Plan> contenders(const Problem& problem, const Preferences& preferences,
                             const SearchResult& result, double near, int most);

// Index of the plan to take by the preferences, given measured rates.
std::size_t prefer_by_rates(const Preferences& preferences, const std::vector<Plan>& plans,
                            const std::vector<double>& rates);

// The rate over a whole run, of which a share of the updates is a synchronous start under flush; `rate` is
// that of the plan's own schedule.
double with_synchronous_start(const Problem& problem, const Plan& plan, double rate, double share);

// Applies the preferences to a search result. A tolerance above SearchOptions::near may miss a candidate's
// best plan.
void prefer(const Problem& problem, const Preferences& preferences, SearchResult& result);

}  // namespace twobw::planner
