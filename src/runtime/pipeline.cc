#include "runtime/pipeline.h"

#include <thread>

#include "base/error.h"

namespace twobw::runtime {

Pipeline::Pipeline(const Config& config, const models::LayerList& model, const data::Source& training,
                   const data::Source& validation, PipelineSetup setup, Listener listener)
    : config_(config),
      model_(model),
      training_(training),
      validation_(validation),
      setup_(std::move(setup)),
      listener_(std::move(listener)),
      hub_(std::chrono::duration<double>(config.pipeline.timeout)),
      group_(hub_, setup_.spec.stages),
      gate_(hub_),
      board_(setup_.spec.stages) {
  connect();
}

Pipeline::~Pipeline() = default;

void Pipeline::connect() {
  const int stages = setup_.spec.stages;
  std::vector<WorkerSetup> workers(stages);
  const auto join = [this](transport::Link*& out, transport::Link*& in) {
    out = in = links_.emplace_back(transport::local_link(hub_)).get();
  };
  for (int r = 0; r + 1 < stages; ++r) {
    join(workers[r].ports.activations_out, workers[r + 1].ports.activations_in);
    join(workers[r + 1].ports.gradients_out, workers[r].ports.gradients_in);
  }

  int layer = 0, tie_primary = -1, tie_copy = -1;
  for (int r = 0; r < stages; ++r) {
    WorkerSetup& worker = workers[r];
    worker.stage = r;
    worker.cores = setup_.cores[r];
    worker.checksums = setup_.checksums;
    worker.record_events = setup_.record_events;
    worker.arithmetic = {.first_layer = layer,
                         .last_layer = layer + setup_.split[r],
                         .recompute = setup_.recompute[r],
                         .slots = schedule::in_flight_bound(setup_.spec, r),
                         .versions = schedule::versions_kept(setup_.spec, r),
                         .gradient_buffers = schedule::gradient_buffers(setup_.spec, r)};
    layer += setup_.split[r];
    const weights::Layout layout(model_, worker.arithmetic.first_layer, worker.arithmetic.last_layer);
    for (const weights::Tie& tie : layout.ties()) {
      if (tie.copy < 0) tie_primary = r;
      if (tie.primary < 0) tie_copy = r;
    }
  }
  if (tie_primary >= 0 && tie_copy >= 0) {
    join(workers[tie_primary].ports.tied_out, workers[tie_copy].ports.tied_in);
    join(workers[tie_copy].ports.tied_out, workers[tie_primary].ports.tied_in);
  }
  for (WorkerSetup& worker : workers) {
    workers_.push_back(
        std::make_unique<Worker>(config_, setup_.spec, std::move(worker), group_, gate_, board_, listener_));
  }
}

void Pipeline::run_worker(int stage) {
  const auto fail = [&](std::string message, bool stuck) {
    std::lock_guard lock(failure_mutex_);
    if (failures_.empty()) stuck_report_ = board_.report();
    failures_.push_back({fmt::format("stage {}: {}", stage, message), stuck});
    hub_.cancel();
    failed_.notify_all();
  };
  try {
    workers_[stage]->run(model_, training_, validation_, start_);
  } catch (const transport::Cancelled&) {
    board_.finish(stage, "cancelled");
  } catch (const transport::WaitTimeout& timeout) {
    fail(timeout.what(), true);
  } catch (const std::bad_alloc&) {
    fail("out of memory", false);
  } catch (const std::exception& error) {
    fail(error.what(), false);
  }
}

void Pipeline::run() {
  start_ = std::chrono::steady_clock::now();
  std::vector<std::thread> threads;
  for (int stage = 0; stage < setup_.spec.stages; ++stage)
    threads.emplace_back([this, stage] { run_worker(stage); });
  for (std::thread& thread : threads) thread.join();
  if (failures_.empty()) return;
  const Failure& first = failures_.front();
  if (!first.stuck) throw RunError(first.message);
  fail_run("the pipeline is stuck; {}; the workers were at:\n{}", first.message, stuck_report_);
}

void Pipeline::await_failure() {
  std::unique_lock lock(failure_mutex_);
  failed_.wait(lock, [this] { return !failures_.empty(); });
}

void Pipeline::request_stop() {
  gate_.request_stop();
}

const Stage& Pipeline::stage(int index) const {
  return workers_[index]->stage();
}

std::vector<telemetry::Event> Pipeline::events() const {
  std::vector<telemetry::Event> all;
  for (const auto& worker : workers_) all.insert(all.end(), worker->events().begin(), worker->events().end());
  return all;
}

}  // namespace twobw::runtime
