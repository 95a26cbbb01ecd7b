// A run from its configuration to its end.
#include "app/train/trainer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <filesystem>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "app/measure/forecast.h"
#include "app/measure/split.h"
#include "app/train/branch.h"
#include "app/train/checkpoints.h"
#include "app/train/collector.h"
#include "app/train/export.h"
#include "app/train/follower.h"
#include "app/train/guard.h"
#include "app/train/interrupts.h"
#include "app/train/introduction.h"
#include "app/train/kept_plan.h"
#include "app/train/loop.h"
#include "app/train/metrics_file.h"
#include "app/train/model_files.h"
#include "app/train/planning.h"
#include "app/train/restore.h"
#include "app/train/resume.h"
#include "app/train/run_directory.h"
#include "app/train/run_plan.h"
#include "app/train/start.h"
#include "app/train/state_receiver.h"
#include "core/base/error.h"
#include "core/base/output_file.h"
#include "core/base/text_file.h"
#include "core/launch/world.h"
#include "core/telemetry/event.h"
#include "core/telemetry/progress.h"
#include "engine/runtime/process_devices.h"
#include "engine/runtime/setup.h"
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

// First and last update of each, counted from 1.
nlohmann::ordered_json updates_of(std::span<const schedule::BatchRange> ranges, std::int64_t updates) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const schedule::BatchRange& range : ranges)
    if (range.begin < updates) list.push_back({range.begin + 1, std::min(range.end, updates)});
  return list;
}

// Those before the checkpoint, and those after it that are decided on.
void continue_fallbacks(const Guard& guard, schedule::Spec& spec) {
  for (const schedule::BatchRange& range : guard.fallbacks()) {
    if (range.begin == schedule::synchronous_batches(spec)) {
      spec.sync_updates = range.end;  // as Stream::run_synchronously has it
    } else {
      spec.fallbacks.push_back(range);
    }
  }
}

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

// Whether another process was asked to end the run; it has passed that on.
bool interrupted_elsewhere(transport::Processes* processes) {
  bool interrupted = false;
  for (int rank = 1; processes != nullptr && rank < processes->size(); ++rank)
    interrupted = processes->mail().poll(rank) == kInterrupted || interrupted;
  return interrupted;
}

// Before time is spent. In the folder of the run, which may not be there yet, there will be room.
void check_trace(const std::string& trace, const std::string& run_dir) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::weakly_canonical(run_dir), file = fs::weakly_canonical(trace);
  if (std::ranges::mismatch(folder, file).in1 != folder.end()) check_writable("--trace", trace);
}

// Returns the reason if it fails: the model is still to be saved.
std::string try_to_write(const std::string& trace, const std::vector<telemetry::Event>& events) {
  try {
    telemetry::write_trace(trace, events);
    return {};
  } catch (const RunError& error) {
    return error.what();
  }
}

// Alone, or as rank 0.
Outcome lead(const Config& asked, const RunOptions& options) {
  transport::Processes* const processes = options.processes.get();
  const std::vector<runtime::HostDevices> hosts =
      processes ? gather_hosts(*processes) : std::vector<runtime::HostDevices>();
  if (!options.trace.empty()) check_trace(options.trace, asked.run_dir);
  FolderLock lock = lock_run_directory(asked.run_dir);  // before anything there is read
  const std::optional<ResumePoint> newest = find_resume_point(asked);
  telemetry::Progress progress(isatty(STDOUT_FILENO) != 0 &&
                               launch::terminal_is_users(launch::process_environment()));
  std::vector<std::string> said;  // before there is a log
  const auto say = [&](const std::string& line) {
    progress.say(line);
    said.push_back(line);
  };
  const Planning planning = plan_if_asked(asked, newest, hosts, processes, say);
  const std::optional<measure::Forecast>& forecast = planning.forecast;
  Start start = prepare_start(planning.config, asked, newest, hosts, processes);
  const Config& config = start.config;
  const std::optional<ResumePoint>& resume = start.resume;
  const std::shared_ptr<const runtime::Restored>& restored = start.restored;
  runtime::Setup& setup = start.setup;
  setup.spec.save_every = config.checkpoint.every_updates;
  setup.spec.save_last = config.checkpoint.every_updates > 0 || config.checkpoint.every_minutes > 0;
  check_source_is_apart(config);
  const bool branches = is_branch(asked);
  RunDirectory directory(config, std::move(lock), resume && !branches);
  directory.warn_with([&](const std::string& line) { progress.say(line); });
  if (branches) begin_branch(asked, *resume, directory);
  if (config.model.is_imported() && !resume) directory.keep_source(config.model.from);
  for (const std::string& line : said) directory.log(line);
  if (forecast) replace_text(directory.path("profile.json"), planner::to_json(forecast->profile));
  measure::choose_split(setup);
  const Config resolved = resolved_config(start);
  directory.write_config(resolved);
  if (!planning.planned_for.is_null()) write_planned_for(config.run_dir, planning.planned_for);

  Interrupts interrupts;
  Outcome outcome;
  Loop loop(setup, directory, progress, options.brief);
  if (resume) {
    const std::int64_t updates = restored->update, every = setup.spec.evaluate_every;
    const Past past = copy_metrics(resumed_run(asked) + "/metrics.jsonl", directory.path("metrics.jsonl"),
                                   updates, every > 0 && updates % every == 0);
    directory.reopen_metrics();
    loop.continue_from(past);
    continue_fallbacks(loop.guard(), setup.spec);
    begin_at(resume->manifest, setup.model, setup.spec);
    for (const std::string& line : warnings_of(*resume)) loop.say(line);
    loop.say(fmt::format("resumed after update {} from {}{}", updates, resume->folder,
                         setup.spec.begins_drained ? "; the first batch runs on the true weights" : ""));
    if (forecast) loop.say(describe_change(*resume, setup.spec.shape, processes ? processes->size() : 1));
    if (std::ssize(past.updates) < updates)
      loop.say(fmt::format("warning: metrics.jsonl has the lines of {} updates only", past.updates.size()));
  }
  if (processes)
    send_plan(*processes, plan_of(resolved, setup, resume ? resume->folder : "", !options.trace.empty()));
  const checkpoint::ModelFiles files = model_files(setup.config, directory.path("from"));
  Checkpoints checkpoints(setup, config.run_dir, resolved, files,
                          restored ? restored->position() : runtime::DataPosition());
  loop.save_with(checkpoints);
  loop.watch_with(StragglerReport(setup, hosts, forecast ? &forecast->plan : nullptr));
  introduce(config, setup, directory, hosts, [&](const std::string& line) { loop.note(line); });
  if (processes && !processes->wires().open_ports.empty())
    directory.log("warning: other programs can connect to the ports for tensors: " +
                  processes->wires().open_ports);
  Collector collector(setup.spec.shape.workers());
  runtime::PipelineSetup pipeline_setup = setup.pipeline();
  pipeline_setup.record_events = !options.trace.empty();
  pipeline_setup.restored = restored;
  pipeline_setup.processes = options.processes;
  runtime::Observer observer = collector.observer();
  observer.on_snapshot = [&](runtime::Snapshot snapshot) { checkpoints.add(std::move(snapshot)); };
  std::optional<StateReceiver> elsewhere;
  if (processes) elsewhere.emplace(options.processes, setup.model, setup.spec.shape, observer.on_snapshot);
  transport::abort_on_failure(processes, [&] {
    runtime::Pipeline pipeline(setup.config, setup.model, *setup.training, *setup.validation, pipeline_setup,
                               observer);
    if (loop.guard().falls_back()) {
      // The updates made so far have decided on so many batches.
      const std::int64_t first = setup.spec.first_batch;
      pipeline.hold_from(first);
      for (std::int64_t batch = first; batch < first + Guard::kAhead; ++batch)
        pipeline.permit(batch, loop.guard().fell_back_at(batch));
      loop.guard_with([&](std::int64_t batch, bool synchronous) { pipeline.permit(batch, synchronous); });
    }
    SaveClock clock(config.checkpoint.every_minutes);
    Background background(pipeline, collector);
    const auto watch = [&] {
      while (!collector.exhausted()) {
        if (const auto report = collector.next(0.2))
          std::visit([&](const auto& what) { loop.handle(what); }, *report);
        const bool elsewhere_too = interrupted_elsewhere(processes);
        if ((interrupts.stop_requested() || elsewhere_too) && !outcome.interrupted) {
          outcome.interrupted = true;
          loop.say(
              "interrupted: saving a checkpoint, then finishing the updates that have begun "
              "(again to quit at once)");
          if (!elsewhere_too) pipeline.request_save(/*stop=*/true);
        }
        if (interrupts.take_save_request() || clock.is_due()) pipeline.request_save(/*stop=*/false);
        for (const checkpoint::Written& written : checkpoints.take_written()) loop.handle(written);
      }
    };
    transport::abort_on_failure(processes, watch);  // before the pipeline is waited for
    background.finish();
    if (elsewhere) elsewhere->finish();

    if (!options.trace.empty()) {
      std::vector<telemetry::Event> events = pipeline.events();
      if (elsewhere) events.insert(events.end(), elsewhere->events().begin(), elsewhere->events().end());
      if (const std::string problem = try_to_write(options.trace, events); !problem.empty()) {
        outcome.unwritten.push_back(problem);
        directory.log("warning: " + problem);
      }
    }
    const auto weights_of = [&](int stage) {
      return pipeline.is_here(stage) ? pipeline.stage(stage).newest_weights() : elsewhere->weights(stage);
    };
    save_model(weights_of, setup, files, directory.path("model"));
    outcome.summary = loop.statistics().summary();
    outcome.summary["interrupted"] = outcome.interrupted;
    if (loop.guard().falls_back())
      outcome.summary["fallbacks"] =
          updates_of(loop.guard().fallbacks(), outcome.summary["updates"].get<std::int64_t>());
    if (forecast) outcome.summary["forecast"] = measure::compare(forecast->plan, outcome.summary);
    directory.write_summary(outcome.summary);
    checkpoints.finish();
    for (const checkpoint::Written& written : checkpoints.take_written()) loop.handle(written);
    directory.log("done: " + outcome.summary.dump());
  });
  for (const std::string& sentence : directory.finish()) outcome.unwritten.push_back(sentence);
  outcome.curve = loop.statistics().curve();
  outcome.config = config;
  return outcome;
}

}  // namespace

Outcome train(const Config& config, const RunOptions& options) {
  transport::Processes* const processes = options.processes.get();
  return transport::abort_on_failure(processes, [&] {
    if (processes) check_share(config, *processes);
    if (!processes || processes->rank() == 0) return lead(config, options);
    follow(options.processes, /*plans=*/config.plan == "auto");
    return Outcome{.config = config, .summary = {}, .curve = {}};
  });
}

}  // namespace twobw::train
