#include "app/train/worker_rank.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <vector>

#include "app/train/decision.h"
#include "app/train/interrupts.h"
#include "app/train/state_transfer.h"
#include "engine/runtime/pipeline.h"
#include "engine/runtime/rank_map.h"
#include "engine/runtime/setup.h"
#include "engine/transport/processes.h"

namespace twobw::train {
namespace {

// Forwards signals to all processes.
void run_with_signals(runtime::Pipeline& pipeline, transport::Processes& processes) {
  Interrupts interrupts;
  bool interrupted = false;
  std::future<void> run = std::async(std::launch::async, [&pipeline] { pipeline.run(); });
  while (run.wait_for(std::chrono::milliseconds(200)) != std::future_status::ready) {
    if (interrupts.stop_requested() && !interrupted) {
      interrupted = true;
      processes.mail().send(0, kInterrupted);
      pipeline.request_save(/*stop=*/true);
    }
    if (interrupts.take_save_request()) pipeline.request_save(/*stop=*/false);
  }
  run.get();
}

}  // namespace

void run_worker_rank(const std::shared_ptr<transport::Processes>& processes, bool plans) {
  const auto [run, restored] = await_decision(*processes, plans);
  const runtime::Setup setup = load(run);
  const PipelineShape& shape = run.spec.shape;
  // One snapshot per stage may be in transit while the next is taken.
  StateSender sender(processes,
                     2 * runtime::RankMap(shape, processes->size(), processes->rank()).workers_here());
  const runtime::Observer observer{
      .on_update = [](telemetry::StageUpdate) {},
      .on_evaluation = [](telemetry::Evaluation) {},
      .on_snapshot = [&](runtime::Snapshot snapshot) { sender.add(std::move(snapshot)); }};
  transport::abort_on_failure(processes.get(), [&] {
    runtime::Pipeline pipeline(
        setup, {.record_events = run.record_events, .restored = restored, .processes = processes}, observer);
    run_with_signals(pipeline, *processes);
    std::vector<StateMessage> last = weights_here(pipeline, shape, /*all_replicas=*/false);
    if (run.record_events) last.push_back(events_message(pipeline.events()));
    sender.finish(std::move(last));
  });
}

}  // namespace twobw::train
