#include "app/train/stragglers.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "app/train/decision.h"
#include "core/schedule/spec.h"
#include "engine/device/device.h"

namespace twobw::train {

using Json = nlohmann::ordered_json;

namespace {

// The lower of the two in the middle; of none: 0.
template <typename Values>
double lower_median(const Values& values) {
  if (values.empty()) return 0;
  std::vector<double> sorted(values.begin(), values.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>((sorted.size() - 1) / 2);
  std::ranges::nth_element(sorted, middle);
  return *middle;
}

// The median ratio of the other workers: a slowdown of all, such as longer texts, makes no straggler.
double others_pace(const std::vector<double>& ratios, std::size_t index) {
  std::vector<double> others;
  for (std::size_t i = 0; i < ratios.size(); ++i) {
    if (i != index && ratios[i] > 0) others.push_back(ratios[i]);
  }
  return others.empty() ? 1 : lower_median(others);
}

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

Stragglers::Stragglers(int workers, std::vector<double> planned)
    : planned_(std::move(planned)), workers_(static_cast<std::size_t>(workers)) {
  for (std::size_t i = 0; i < workers_.size(); ++i) workers_[i].straggler.worker = static_cast<int>(i);
}

double Stragglers::expected_of(const Worker& worker, std::size_t index) const {
  if (!planned_.empty()) return planned_[index];
  return std::ssize(worker.past) < kLeastPast ? 0 : lower_median(worker.past);
}

Stragglers::Verdict Stragglers::add(const std::vector<double>& seconds, double elapsed) {
  Verdict verdict;
  if (++updates_ <= kWarmUp) return verdict;
  std::vector<double> ratios;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    Worker& worker = workers_[i];
    worker.expected = expected_of(worker, i);
    ratios.push_back(worker.expected > 0 ? seconds[i] / worker.expected : 0);
  }
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    Worker& worker = workers_[i];
    if (worker.expected > 0)
      judge(worker, seconds[i], worker.expected * std::max(others_pace(ratios, i), 1.0), elapsed, verdict);
    if (!worker.slow.empty() || worker.named) continue;
    worker.past.push_back(seconds[i]);
    if (std::ssize(worker.past) > kPast) worker.past.pop_front();
  }
  return verdict;
}

void Stragglers::judge(Worker& worker, double seconds, double usual, double elapsed, Verdict& verdict) {
  if (worker.named) {
    ++worker.straggler.updates;
    const bool usual_again = seconds <= kRecovered * usual;
    worker.recovered = usual_again ? worker.recovered + 1 : 0;
    worker.recovered_for = usual_again ? worker.recovered_for + elapsed : 0;
    if (worker.recovered < kLeastUpdates || worker.recovered_for < kLeastTime) return;
    worker.named = false;
    worker.straggler.measured = seconds;
    verdict.ended.push_back(worker.straggler);
    return;
  }
  if (seconds <= kSlow * usual || seconds - usual < kLeast) {
    if (!worker.slow.empty() && ++worker.fast >= std::ssize(worker.slow)) forget_slow(worker);
    return;
  }
  worker.slow.push_back(seconds);
  worker.slow_for += elapsed;
  if (std::ssize(worker.slow) < kLeastUpdates || worker.slow_for < kLeastTime) return;
  worker.straggler.measured = lower_median(worker.slow);
  worker.straggler.expected = worker.expected;
  worker.straggler.updates = std::ssize(worker.slow) + worker.fast;
  worker.named = true;
  worker.recovered = 0;
  worker.recovered_for = 0;
  forget_slow(worker);
  verdict.begun.push_back(worker.straggler);
}

void Stragglers::forget_slow(Worker& worker) {
  worker.slow.clear();
  worker.slow_for = 0;
  worker.fast = 0;
}

std::vector<Straggler> Stragglers::current() const {
  std::vector<Straggler> slow;
  for (const Worker& worker : workers_) {
    if (worker.named) slow.push_back(worker.straggler);
  }
  return slow;
}

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
