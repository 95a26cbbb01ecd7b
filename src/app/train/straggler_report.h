// Says which worker is slow, where it runs, and since when: in the log and in the metrics.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/train/collector.h"
#include "app/train/stragglers.h"
#include "engine/runtime/process_devices.h"
#include "engine/runtime/setup.h"
#include "planning/planner/costs/plan.h"

namespace twobw::train {

class StragglerReport {
 public:
  // `hosts`: of the processes, by rank, where there are several. `plan`: what was forecast of the run; null:
  // nothing was. The setup outlives it.
  StragglerReport(const runtime::Setup& setup, const std::vector<runtime::HostDevices>& hosts,
                  const planner::Plan* plan);

  struct Said {
    std::vector<std::string> lines;     // a sentence for every episode that begins or ends
    nlohmann::ordered_json stragglers;  // for the line of metrics; empty: there are none
  };
  Said add(const CompleteUpdate& update);

 private:
  std::string describe(int worker) const;
  nlohmann::ordered_json entry_of(const Straggler& straggler) const;

  const runtime::Setup& setup_;
  std::vector<runtime::HostDevices> hosts_;
  bool planned_;
  Stragglers stragglers_;
};

}  // namespace twobw::train
