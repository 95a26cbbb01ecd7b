#include "planning/planner/costs/cost_tables.h"

#include <set>

#include "planning/architecture/families.h"
#include "planning/planner/costs/roofline.h"
#include "planning/planner/costs/state_bytes.h"

namespace twobw::planner {

std::vector<int> usual_microbatches(int batch, std::optional<int> fixed) {
  std::set<int> sizes = {1};
  for (int size = 2; size <= batch && size <= 1024; size *= 2) sizes.insert(size);
  if (fixed && *fixed >= 1) sizes.insert(*fixed);
  return {sizes.begin(), sizes.end()};
}

std::vector<CostTable> measured_tables(const Config& config, const Cluster& cluster, const Profile& profile) {
  const std::vector<std::string> kinds = architecture::kinds_of(architecture::model_of(config.model));
  check_matches(profile, config, kinds);
  std::vector<CostTable> tables;
  for (const DeviceKind& device : cluster.kinds) tables.push_back(costs_of(profile, kinds, device.speed));
  return tables;
}

std::vector<CostTable> modelled_tables(const Config& config, const Cluster& cluster,
                                       const std::vector<int>& microbatches) {
  const std::string& precision = config.train.precision;
  const architecture::Model model = architecture::model_of(config.model);
  const StateBytes state = state_bytes(config.optimizer, precision, /*predicts=*/false);
  std::vector<CostTable> tables;
  for (const DeviceKind& device : cluster.kinds) {
    tables.push_back(modelled_costs(model, device, precision, state, config.model.context, microbatches));
  }
  return tables;
}

}  // namespace twobw::planner
