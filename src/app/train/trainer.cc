// A run from its configuration to its end, as rank 0 or alone.
#include "app/train/trainer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <filesystem>
#include <optional>
#include <thread>
#include <utility>

#include "app/train/collector.h"
#include "app/train/decision.h"
#include "app/train/interrupts.h"
#include "app/train/recording.h"
#include "app/train/run_directory.h"
#include "app/train/state_transfer.h"
#include "app/train/worker_rank.h"
#include "core/base/text_file.h"
#include "core/launch/world.h"
#include "core/telemetry/event.h"
#include "core/telemetry/progress.h"
#include "engine/runtime/pipeline.h"
#include "engine/transport/processes.h"

namespace twobw::train {
namespace {

// Runs the pipeline on a thread of its own and closes the collector when it ends.
class Background {
 public:
  Background(runtime::Pipeline& pipeline, Collector& collector)
      : thread_([this, &pipeline, &collector] {
          try {
            pipeline.run();
          } catch (...) {
            failure_ = std::current_exception();
          }
          collector.close();
        }) {}
  ~Background() {
    if (thread_.joinable()) thread_.join();
  }
  void finish() {
    thread_.join();
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::exception_ptr failure_;
  std::thread thread_;
};

// Asks for checkpoints by the clock.
class SaveClock {
 public:
  explicit SaveClock(double minutes) : seconds_(60 * minutes) {}
  bool is_due() {
    const auto now = std::chrono::steady_clock::now();
    if (seconds_ <= 0 || std::chrono::duration<double>(now - last_).count() < seconds_) return false;
    last_ = now;
    return true;
  }

 private:
  double seconds_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// Whether another process received a signal; it has forwarded it.
bool interrupted_elsewhere(transport::Processes* processes) {
  bool interrupted = false;
  for (int rank = 1; processes != nullptr && rank < processes->size(); ++rank)
    interrupted = processes->mail().poll(rank) == kInterrupted || interrupted;
  return interrupted;
}

// Checks early that --trace can be written, unless it lies in the run directory, which may not exist yet.
void check_trace(const std::string& trace, const std::string& run_dir) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::weakly_canonical(run_dir), file = fs::weakly_canonical(trace);
  if (std::ranges::mismatch(folder, file).in1 != folder.end()) check_writable("--trace", trace);
}

// Records the reports of the pipeline until it has ended, and passes on signals. Returns whether the run was
// interrupted.
bool watch(runtime::Pipeline& pipeline, Collector& collector, Recording& recording, Interrupts& interrupts,
           transport::Processes* processes, double save_every_minutes) {
  SaveClock clock(save_every_minutes);
  bool interrupted = false;
  while (!collector.exhausted()) {
    if (const auto report = collector.next(0.2))
      std::visit([&](const auto& what) { recording.handle(what); }, *report);
    const bool elsewhere_too = interrupted_elsewhere(processes);
    if ((interrupts.stop_requested() || elsewhere_too) && !interrupted) {
      interrupted = true;
      recording.say(
          "interrupted: saving a checkpoint, then finishing the updates that have begun "
          "(again to quit at once)");
      if (!elsewhere_too) pipeline.request_save(/*stop=*/true);
    }
    if (interrupts.take_save_request() || clock.is_due()) pipeline.request_save(/*stop=*/false);
    recording.handle_written();
  }
  return interrupted;
}

// Executes the decided run with the others, and records it.
void execute(const Decision& decision, const RunOptions& options, Interrupts& interrupts,
             Recording& recording) {
  const DecidedRun& run = decision.run;
  const runtime::Setup& setup = decision.setup;
  transport::Processes* const processes = options.processes.get();
  Collector collector(run.spec.shape.workers());
  runtime::Observer observer = collector.observer();
  observer.on_snapshot = [&](runtime::Snapshot snapshot) { recording.add(std::move(snapshot)); };
  std::optional<StateReceiver> elsewhere;
  if (processes) elsewhere.emplace(options.processes, setup.model, run.spec.shape, observer.on_snapshot);
  transport::abort_on_failure(processes, [&] {
    runtime::Pipeline pipeline(
        setup,
        {.record_events = run.record_events, .restored = decision.restored, .processes = options.processes},
        observer);
    Background background(pipeline, collector);
    // Before the pipeline is waited for.
    const bool interrupted = transport::abort_on_failure(processes, [&] {
      return watch(pipeline, collector, recording, interrupts, processes,
                   run.config.checkpoint.every_minutes);
    });
    background.finish();
    if (elsewhere) elsewhere->finish();
    if (run.record_events) {
      std::vector<telemetry::Event> events = pipeline.events();
      if (elsewhere) events.insert(events.end(), elsewhere->events().begin(), elsewhere->events().end());
      recording.write_trace(options.trace, events);
    }
    const auto weights_of = [&](int stage) {
      return pipeline.is_here(stage) ? pipeline.stage(stage).newest_weights() : elsewhere->weights(stage);
    };
    recording.write_results(weights_of, interrupted);
  });
}

// Alone, or as rank 0.
Outcome run_coordinator(const Config& asked, const RunOptions& options) {
  if (!options.trace.empty()) check_trace(options.trace, asked.run_dir);
  FolderLock lock = lock_run_directory(asked.run_dir);  // before anything there is read
  check_source_is_apart(asked);
  telemetry::Progress progress(isatty(STDOUT_FILENO) != 0 &&
                               launch::terminal_is_users(launch::process_environment()));
  std::vector<std::string> early;
  const Decision decision =
      decide_run(asked, !options.trace.empty(), options.processes.get(), [&](const std::string& line) {
        progress.say(line);
        early.push_back(line);
      });
  Interrupts interrupts;
  Recording recording(asked, decision, std::move(lock), early, progress, options);
  if (options.processes) start_others(*options.processes);
  recording.begin(options.processes.get());
  execute(decision, options, interrupts, recording);
  return recording.finish();
}

}  // namespace

Outcome train(const Config& config, const RunOptions& options) {
  transport::Processes* const processes = options.processes.get();
  return transport::abort_on_failure(processes, [&] {
    if (processes) check_share(config, *processes);
    if (!processes || processes->rank() == 0) return run_coordinator(config, options);
    run_worker_rank(options.processes, /*plans=*/config.plan == "auto");
    return Outcome{.config = config, .summary = {}, .curve = {}};
  });
}

}  // namespace twobw::train
