#include "exhaustive.h"

#include <gtest/gtest.h>

#include "planner/search.h"
#include "problems.h"

namespace twobw::planner {
namespace {

// The search against trying everything, on random problems. Returns how many had no plan that fits.
int compare(int problems, std::uint64_t seed, const Size& size, bool all_recomputations, bool one_schedule) {
  int infeasible = 0;
  for (int i = 0; i < problems; ++i) {
    Problem problem = random_problem(seed + i, size);
    if (one_schedule) problem.schedule = std::vector{schedule::Kind::TwoBW, schedule::Kind::Flush}[i % 2];
    const std::optional<Estimate> best = Exhaustive(problem, all_recomputations).best();
    const SearchResult found = search(problem, {.simulate = 0});
    EXPECT_TRUE(found.exact);
    EXPECT_EQ(best.has_value(), found.best.has_value()) << "problem " << seed + i;
    if (!best) ++infeasible;
    if (!best || !found.best) continue;
    EXPECT_TRUE(found.best->fits());
    EXPECT_NEAR(found.best->plan.sequences_per_s / best->plan.sequences_per_s, 1, 1e-8)
        << "problem " << seed + i;
  }
  return infeasible;
}

TEST(Exhaustive, SmallProblems) {
  const Size size{.most_nodes = 3, .most_devices = 4, .most_kinds = 3, .most_layers = 4, .microbatch_sizes = 2};
  const int infeasible = compare(200, 1000, size, true, false);
  EXPECT_GT(infeasible, 10);
  EXPECT_LT(infeasible, 100);
}

}  // namespace
}  // namespace twobw::planner
