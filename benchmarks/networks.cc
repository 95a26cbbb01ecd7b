// The planner's formula against its simulator where the network is slow. Prints a line for every problem: the
// chosen plan, its rate by both, their ratio; and of the other candidates that come near it the two ratios
// that are furthest off. Takes parts of the names of clusters and models, if given, and "all" for every
// candidate by itself.
#include <algorithm>
#include <ctime>

#include "planning/planner/costs/simulated_cost.h"
#include "planning/planner/search/preference.h"
#include "planning/planner/search/search.h"
#include "tests/planning/planner/networks.h"

namespace {

using namespace twobw;
using namespace twobw::planner;

bool contains(const std::string& name, const char* part) {
  return part == nullptr || name.find(part) != std::string::npos;
}

double ratio(const Problem& problem, const Plan& plan) {
  return plan.tokens_per_s / simulated_tokens_per_s(problem, plan);
}

void compare(const std::string& name, const Problem& problem, bool all) {
  const std::clock_t begin = std::clock();
  const SearchResult result = search(problem);
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  if (!result.best) return;
  const Plan& best = result.best->plan;
  const double simulated = simulated_tokens_per_s(problem, best);
  double least = 1, most = 1;
  for (const Candidate& candidate : result.candidates) {
    if (!candidate.best || !candidate.best->fits()) continue;
    const Plan& plan = candidate.best->plan;
    if (plan.tokens_per_s < 0.7 * best.tokens_per_s) continue;
    const double off = ratio(problem, plan);
    if (all) {
      fmt::print("    {:<36} {:>9.0f} formula {:>9.0f} simulated {:.3f}\n", in_short(plan), plan.tokens_per_s,
                 plan.tokens_per_s / off, off);
    }
    least = std::min(least, off);
    most = std::max(most, off);
  }
  fmt::print("{:<52} {:<34} {:>8.1f}K {:>8.1f}K {:.3f}  [{:.3f} {:.3f}]  {:.2f} s\n", name, in_short(best),
             best.tokens_per_s / 1e3, simulated / 1e3, best.tokens_per_s / simulated, least, most, seconds);
}

}  // namespace

int main(int argc, char** argv) {
  const char* cluster_part = argc > 1 ? argv[1] : nullptr;
  const char* model_part = argc > 2 ? argv[2] : nullptr;
  for (const Cluster& cluster : slow_clusters()) {
    for (const NamedModel& model : usual_models()) {
      if (!contains(cluster.name, cluster_part) || !contains(model.name, model_part)) continue;
      for (int batch : {32, 128, 512}) {
        compare(fmt::format("{}, {}, {}", cluster.name, model.name, batch),
                problem_on(cluster, model.config, batch), argc > 3);
      }
    }
  }
}
