// A run from its configuration to its end: alone, as rank 0, and on the other ranks.
#include "app/train/trainer.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <future>
#include <optional>
#include <utility>

#include "app/train/decision.h"
#include "app/train/recording.h"
#include "app/train/state_transfer.h"
#include "app/train/statistics.h"
#include "core/base/text_file.h"
#include "core/launch/world.h"
#include "core/telemetry/event.h"
#include "core/telemetry/progress.h"
#include "engine/runtime/pipeline.h"
#include "engine/runtime/rank_map.h"

namespace twobw::train {
namespace {

std::atomic<bool> interrupt_requested{false}, save_requested{false};

// Signals as requests to a run. While it exists, the first Ctrl-C (or SIGTERM) requests a checkpoint and the
// end of the run; the second ends the program. SIGUSR1 requests a checkpoint only. One instance at a time.
class Interrupts {
 public:
  Interrupts() {
    interrupt_requested = save_requested = false;
    struct sigaction action {};
    action.sa_handler = [](int) { interrupt_requested = true; };
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    sigaction(SIGINT, &action, &former_int_);
    sigaction(SIGTERM, &action, &former_term_);
    action.sa_handler = [](int) { save_requested = true; };
    action.sa_flags = SA_RESTART;
    sigaction(SIGUSR1, &action, &former_user_);
  }
  ~Interrupts() {
    sigaction(SIGINT, &former_int_, nullptr);
    sigaction(SIGTERM, &former_term_, nullptr);
    sigaction(SIGUSR1, &former_user_, nullptr);
  }
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  bool stop_requested() const { return interrupt_requested; }
  bool take_save_request() { return save_requested.exchange(false); }  // true once for each signal

 private:
  struct sigaction former_int_ {
  }, former_term_{}, former_user_{};
};

// Message to rank 0: this process received a signal to end the run.
constexpr const char* kInterrupted = "interrupted";

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
    std::future<void> running = std::async(std::launch::async, [&] {
      try {
        pipeline.run();
      } catch (...) {
        collector.close();
        throw;
      }
      collector.close();
    });
    // Before the pipeline is waited for.
    const bool interrupted = transport::abort_on_failure(processes, [&] {
      return watch(pipeline, collector, recording, interrupts, processes,
                   run.config.checkpoint.every_minutes);
    });
    running.get();
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

// On a rank above 0: runs its workers, and sends snapshots and final weights to rank 0. Returns when the run
// has ended everywhere. `plans`: as for await_decision(). Prints nothing.
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
