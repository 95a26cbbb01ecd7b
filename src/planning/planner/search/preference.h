// The search finds the fastest plan by the model. This chooses among plans that are as good as equally
// fast what people would rather have, after the search and on top of it.
#pragma once

#include "planning/planner/search/search.h"

namespace twobw::planner {

struct Preferences {
  // A plan without delayed updates is taken before one with them, then one of fewer stages before one of
  // more, where that costs at most this fraction of the throughput.
  double tolerance = 0.02;
  // Measured times vary from one microbatch to the next, and with strictly as many in flight as there are
  // stages each delay holds up all of them. One more for every boundary absorbs it, where memory and m
  // allow and e is not fixed.
  bool cushion = true;
  // A plan whose first stage predicts from less than half of a batch is passed over where another costs at
  // most this fraction of the throughput, and at most ten times the tolerance.
  double predict_well = 0.2;
};

// Searches, and chooses by the preferences. Every candidate that may be chosen has its best plan.
SearchResult search_with(const Problem& problem, const Preferences& preferences, SearchOptions options = {});

// The chosen plan, and others that come so near it by the model: a run can tell which is fastest. First the
// best of every candidate, then the best of every candidate with its second microbatch size, and so on;
// `most` in all at most. Plans that come to the same run are one.
std::vector<Plan> contenders(const Problem& problem, const Preferences& preferences,
                             const SearchResult& result, double near, int most);

// Which of the plans to take by the preferences, now that their rates are known better than by the search.
std::size_t prefer_by_rates(const Preferences& preferences, const std::vector<Plan>& plans,
                            const std::vector<double>& rates);

// The rate over a whole run of which a share of the updates is a synchronous start, under flush, where the
// plan's own schedule makes `rate`.
double with_synchronous_start(const Problem& problem, const Plan& plan, double rate, double share);

// Of what was found. A tolerance above SearchOptions::near may pass over a candidate's best plan.
void prefer(const Problem& problem, const Preferences& preferences, SearchResult& result);

}  // namespace twobw::planner
