#include "app/train/follower.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <vector>

#include "app/measure/process_links.h"
#include "app/train/interrupts.h"
#include "app/train/resume_together.h"
#include "app/train/run_plan.h"
#include "app/train/state_sender.h"
#include "engine/runtime/placement.h"
#include "engine/runtime/setup.h"
#include "engine/transport/processes.h"

namespace twobw::train {
namespace {

// Signals that come here are for all.
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

void follow(const std::shared_ptr<transport::Processes>& processes, bool plans) {
  gather_hosts(*processes);
  if (plans) measure::measure_links(*processes);
  const std::shared_ptr<const runtime::Restored> restored = read_as_told(*processes);
  const RunPlan plan = receive_plan(*processes);
  const runtime::Setup setup = prepare(plan);
  const PipelineShape& shape = setup.spec.shape;
  runtime::PipelineSetup pipeline_setup = setup.pipeline();
  pipeline_setup.record_events = plan.record_events;
  pipeline_setup.restored = restored;
  pipeline_setup.processes = processes;
  // One of each stage may be on its way while the next is made.
  StateSender sender(processes,
                     2 * runtime::Placement(shape, processes->size(), processes->rank()).workers_here());
  const runtime::Observer observer{
      .on_update = [](telemetry::StageUpdate) {},
      .on_evaluation = [](telemetry::Evaluation) {},
      .on_snapshot = [&](runtime::Snapshot snapshot) { sender.add(std::move(snapshot)); }};
  transport::abort_on_failure(processes.get(), [&] {
    runtime::Pipeline pipeline(setup.config, setup.model, *setup.training, *setup.validation, pipeline_setup,
                               observer);
    run_with_signals(pipeline, *processes);
    std::vector<Parcel> last = weights_here(pipeline, shape, /*all_replicas=*/false);
    if (plan.record_events) last.push_back(events_parcel(pipeline.events()));
    sender.finish(std::move(last));
  });
}

}  // namespace twobw::train
