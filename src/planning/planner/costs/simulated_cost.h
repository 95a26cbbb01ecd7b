// A plan as input of the simulator: one replica of the pipeline, on links that it shares with the others.
#pragma once

#include "core/simulator/simulate.h"
#include "planning/planner/costs/plan.h"

namespace twobw::planner {

// Shared links are one channel for all that leaves a node (between nodes), or passes it in one direction
// (inside); what other replicas send at the same time takes its part of the bandwidth.
simulator::System system_of(const Problem& problem, const Plan& plan);

// Spec of one replica.
schedule::Spec spec_of_one_replica(const Plan& plan);

// Seconds of an update in the steady state.
double simulated_update(const Problem& problem, const Plan& plan);
// Tokens a second of all replicas together.
double simulated_tokens_per_s(const Problem& problem, const Plan& plan);

}  // namespace twobw::planner
