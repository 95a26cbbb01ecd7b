// profile.json.
#include "planning/planner/costs/profile.h"

#include "tests/fuzz/target.h"

namespace twobw::fuzz {

void read_profile(std::string_view input) {
  const planner::Profile profile = planner::parse_profile(std::string(input), "profile.json");
  planner::costs_of(profile, profile.layers);
  planner::parse_profile(planner::to_json(profile), "profile.json, written again");
}

}  // namespace twobw::fuzz
