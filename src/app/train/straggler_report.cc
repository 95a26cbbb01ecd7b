#include "app/train/straggler_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "app/train/introduction.h"
#include "core/schedule/spec.h"
#include "engine/device/device.h"

namespace twobw::train {
namespace {

using Json = nlohmann::ordered_json;

double milliseconds(double seconds) {
  return 1e3 * seconds;
}

// Seconds that the plan forecasts for each worker, a microbatch; the update's own work is shared by them.
std::vector<double> planned_seconds(const planner::Plan* plan, const PipelineShape& shape) {
  std::vector<double> seconds;
  if (plan == nullptr || std::ssize(plan->stages) != shape.stages) return seconds;
  for (int worker = 0; worker < shape.workers(); ++worker) {
    const planner::StagePlan& stage = plan->stages[static_cast<std::size_t>(worker % shape.stages)];
    seconds.push_back(stage.forward + stage.backward + stage.step / shape.microbatches);
  }
  return seconds;
}

}  // namespace

StragglerReport::StragglerReport(const runtime::Setup& setup, const std::vector<runtime::HostDevices>& hosts,
                                 const planner::Plan* plan)
    : setup_(setup),
      hosts_(hosts),
      planned_(!planned_seconds(plan, setup.spec.shape).empty()),
      stragglers_(setup.spec.shape.workers(), planned_seconds(plan, setup.spec.shape)) {}

std::string StragglerReport::describe(int worker) const {
  const PipelineShape& shape = setup_.spec.shape;
  return fmt::format(
      "{} on {}{}", schedule::worker_name(shape.replicas, worker / shape.stages, worker % shape.stages),
      device::describe(setup_.devices[static_cast<std::size_t>(worker)]), where_is(worker, shape, hosts_));
}

Json StragglerReport::entry_of(const Straggler& straggler) const {
  const PipelineShape& shape = setup_.spec.shape;
  Json entry = {{"replica", straggler.worker / shape.stages}, {"stage", straggler.worker % shape.stages}};
  if (!hosts_.empty()) {
    const int process = process_of(straggler.worker, shape, hosts_);
    entry["process"] = process;
    entry["host"] = hosts_[static_cast<std::size_t>(process)].host;
  }
  entry["ms"] = milliseconds(straggler.measured);
  entry["expected_ms"] = milliseconds(straggler.expected);
  entry["updates"] = straggler.updates;
  return entry;
}

StragglerReport::Said StragglerReport::add(const CompleteUpdate& update) {
  std::vector<double> seconds;
  double elapsed = 0;
  for (const telemetry::StageUpdate& stage : update.stages) {
    seconds.push_back(std::max(0.0, stage.elapsed - stage.waiting) / setup_.spec.shape.microbatches);
    elapsed = std::max(elapsed, stage.elapsed);
  }
  const Stragglers::Verdict verdict = stragglers_.add(seconds, elapsed);
  Said said{.lines = {}, .stragglers = Json::array()};
  for (const Straggler& begun : verdict.begun)
    said.lines.push_back(fmt::format(
        "warning: {} is slow: since update {} it computes for {:.1f} ms a microbatch, and {} {:.1f} ms",
        describe(begun.worker), update.update + 2 - begun.updates, milliseconds(begun.measured),
        planned_ ? "its plan says" : "before that it took", milliseconds(begun.expected)));
  for (const Straggler& ended : verdict.ended)
    said.lines.push_back(fmt::format("{} is as fast as expected again: {:.1f} ms a microbatch",
                                     describe(ended.worker), milliseconds(ended.measured)));
  for (const Straggler& slow : stragglers_.current()) said.stragglers.push_back(entry_of(slow));
  return said;
}

}  // namespace twobw::train
