#include "train/trainer.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <thread>

#include "base/error.h"
#include "base/loss_scaling.h"
#include "base/text.h"
#include "base/text_file.h"
#include "measure/forecast.h"
#include "measure/split.h"
#include "models/model.h"
#include "runtime/setup.h"
#include "telemetry/progress.h"
#include "telemetry/trace.h"
#include "train/checkpoints.h"
#include "train/collector.h"
#include "train/export.h"
#include "train/guard.h"
#include "train/metrics_file.h"
#include "train/model_files.h"
#include "train/resume.h"
#include "train/run_directory.h"
#include "train/statistics.h"

namespace twobw::train {
namespace {

std::atomic<bool> interrupt_requested{false}, save_requested{false};

// While it lives, the first Ctrl-C (or SIGTERM) asks the run to save and end; the second ends the program.
// SIGUSR1 asks it to save and go on.
class InterruptGuard {
 public:
  InterruptGuard() {
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
  ~InterruptGuard() {
    sigaction(SIGINT, &former_int_, nullptr);
    sigaction(SIGTERM, &former_term_, nullptr);
    sigaction(SIGUSR1, &former_user_, nullptr);
  }

 private:
  struct sigaction former_int_ {
  }, former_term_{}, former_user_{};
};

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

std::string describe_start(const runtime::Setup& setup) {
  const checkpoint::HeadChange& change = setup.head_change;
  std::string line = "starting from the weights in " + setup.config.model.from;
  if (!change.initialized.empty())
    line += fmt::format("; not there, and initialised: {}", fmt::join(change.initialized, ", "));
  if (!change.left_out.empty()) line += fmt::format("; left out: {}", fmt::join(change.left_out, ", "));
  return line;
}

void introduce(const runtime::Setup& setup, RunDirectory& directory,
               const std::function<void(const std::string&)>& say) {
  const Config& config = setup.config;
  if (!directory.moved_to().empty())
    say("the former run in " + config.run_dir + " is now in " + directory.moved_to());
  say(fmt::format("{} with {} parameters in {}", config.model.family,
                  format_count(static_cast<double>(architecture::parameter_count(setup.model.layers))),
                  architecture::describe(setup.model.layers)));
  if (config.model.is_imported()) say(describe_start(setup));
  say("training on " + setup.training->describe());
  const schedule::Spec& spec = setup.spec;
  const bool replicated = spec.shape.replicas > 1;
  say(fmt::format("{}: {}{} stages, m={} microbatches of {} x {} tokens an update{}, e={}, {} updates",
                  name(config.pipeline.schedule),
                  replicated ? fmt::format("{} replicas of ", spec.shape.replicas) : "", spec.shape.stages,
                  spec.shape.microbatches, config.pipeline.microbatch, config.model.context,
                  replicated ? " and replica" : "", spec.shape.extra, spec.updates));
  if (spec.shape.predicts()) say("  weights predicted from the first " + schedule::describe_prediction(spec));
  for (int worker = 0; worker < spec.shape.workers(); ++worker) {
    const int stage = worker % spec.shape.stages;
    const int first = spec.shape.first_layer(stage), last = spec.shape.last_layer(stage) - 1;
    say(fmt::format("  {} on {}: layers {}..{} ({} to {}){}",
                    schedule::worker_name(spec.shape.replicas, worker / spec.shape.stages, stage),
                    device::describe(setup.devices[worker]), first, last, setup.model.layers[first].kind,
                    setup.model.layers[last].kind, spec.shape.recomputes(stage) ? ", recomputed" : ""));
  }
}

// First and last update of each, counted from 1.
nlohmann::ordered_json updates_of(std::span<const schedule::BatchRange> ranges, std::int64_t updates) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const schedule::BatchRange& range : ranges)
    if (range.begin < updates) list.push_back({range.begin + 1, std::min(range.end, updates)});
  return list;
}

class Loop {
 public:
  // How batch j begins, where the guard decides.
  using Permit = std::function<void(std::int64_t, bool)>;

  Loop(const runtime::Setup& setup, RunDirectory& directory, telemetry::Progress& progress, bool brief)
      : setup_(setup),
        directory_(directory),
        progress_(progress),
        brief_(brief),
        statistics_(setup),
        guard_(setup.config.pipeline) {}

  // Of a resumed run, before the first update: the guard judges what it has seen before.
  void continue_from(const Past& past) {
    statistics_.continue_from(past);
    for (const PastUpdate& update : past.updates)
      guard_.add(update.update, update.loss, update.prediction_error);
  }
  // To be told of what is written to the metrics.
  void save_with(Checkpoints& checkpoints) { checkpoints_ = &checkpoints; }

  void handle(const checkpoint::Written& written) {
    if (!written.problem.empty())
      return say(fmt::format("warning: no checkpoint after update {}: {}", written.update, written.problem));
    directory_.add_metrics(
        {{"checkpoint", written.update}, {"bytes", written.bytes}, {"seconds", written.seconds}});
    note(fmt::format("saved a checkpoint after update {}: {} in {:.1f} s", written.update,
                     format_bytes(static_cast<double>(written.bytes)), written.seconds));
  }

  // To be called before the first update.
  void guard_with(Permit permit) { permit_ = std::move(permit); }
  const Guard& guard() const { return guard_; }

  void handle(const CompleteUpdate& update) {
    statistics_.add(update);
    nlohmann::ordered_json line = statistics_.metrics_line();
    if (guard_.fell_back_at(update.update)) line["fallback"] = true;
    directory_.add_metrics(line);
    checkpoints_->add_update(update.update);
    if (update.skipped) report_skip(update);
    const Guard::Verdict verdict = guard_.add(update.update, update.loss, update.prediction_error);
    if (!verdict.said.empty()) say(verdict.said);
    if (guard_.falls_back()) permit_(update.update + Guard::kAhead, verdict.synchronous);
    progress_.show({.update = update.update + 1,
                    .updates = setup_.spec.updates,
                    .loss = update.loss,
                    .learning_rate = update.learning_rate,
                    .gradient_norm = update.gradient_norm,
                    .tokens_per_s = statistics_.tokens_per_s(),
                    .utilisation = statistics_.utilisation()});
  }

  // With fp16 it is how the loss scale finds its size, unless there is nothing left to halve or the loss
  // itself is not finite.
  void report_skip(const CompleteUpdate& update) {
    if (update.loss_scale > LossScaling::kLeast && std::isfinite(update.loss)) {
      directory_.log(
          fmt::format("update {} skipped by all stages: its gradient overflows at a loss scale of {}",
                      update.update + 1, update.loss_scale));
      return;
    }
    say(fmt::format("update {} skipped by all stages: its gradient is not finite", update.update + 1));
  }

  void handle(const telemetry::Evaluation& evaluation) {
    statistics_.add(evaluation);
    directory_.add_metrics({{"update", evaluation.update + 1}, {"validation_loss", evaluation.loss}});
    checkpoints_->add(evaluation);
    note(fmt::format("after update {}: validation loss {:.4f}", evaluation.update + 1, evaluation.loss));
  }

  void say(const std::string& line) {
    progress_.say(line);
    directory_.log(line);
  }

  // What is said unless the run is to be brief.
  void note(const std::string& line) {
    if (!brief_) progress_.say(line);
    directory_.log(line);
  }

  const Statistics& statistics() const { return statistics_; }

 private:
  const runtime::Setup& setup_;
  RunDirectory& directory_;
  telemetry::Progress& progress_;
  bool brief_;
  Statistics statistics_;
  Guard guard_;
  Permit permit_;
  Checkpoints* checkpoints_ = nullptr;
};

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

}  // namespace

Outcome train(const Config& given, const RunOptions& options) {
  const Config asked = continued(given);
  const std::optional<ResumePoint> resume = find_resume_point(asked);
  // A resumed run has the weights of its checkpoint: those that it started from may be gone.
  const auto computed = [&](Config config) {
    if (resume) config.model.from = "none";
    return config;
  };
  telemetry::Progress progress(isatty(STDOUT_FILENO) != 0);
  std::optional<measure::Forecast> forecast;
  std::vector<std::string> said;  // before there is a log
  if (asked.plan == "auto") {
    forecast = measure::plan_run(computed(asked), [&](const std::string& line) {
      progress.say(line);
      said.push_back(line);
    });
  }
  Config config = forecast ? forecast->config : asked;
  config.model.from = asked.model.from;
  if (resume && config.pipeline.split.empty() && std::ssize(resume->split) == config.pipeline.stages)
    config.pipeline.split = resume->split;  // not measured again
  runtime::Setup setup = runtime::prepare(computed(config));
  setup.spec.save_every = config.checkpoint.every_updates;
  setup.spec.save_last = config.checkpoint.every_updates > 0 || config.checkpoint.every_minutes > 0;
  check_source_is_apart(config);
  RunDirectory directory(config, resume.has_value());
  if (config.model.is_imported() && !resume) directory.keep_source(config.model.from);
  for (const std::string& line : said) directory.log(line);
  if (forecast) write_text(directory.path("profile.json"), planner::to_json(forecast->profile));
  measure::choose_split(setup);
  Config resolved = config;
  resolved.pipeline.split = setup.spec.shape.split;
  resolved.resume = "none";
  directory.write_config(resolved);

  InterruptGuard guard;
  Outcome outcome;
  Loop loop(setup, directory, progress, options.brief);
  if (resume) {
    const std::int64_t updates = resume->restored->update, every = setup.spec.evaluate_every;
    const Past past =
        cut_metrics(directory.path("metrics.jsonl"), updates, every > 0 && updates % every == 0);
    directory.reopen_metrics();
    loop.continue_from(past);
    continue_fallbacks(loop.guard(), setup.spec);
    begin_at(*resume->restored, setup.model, setup.spec);
    for (const std::string& line : resume->said) loop.say(line);
    loop.say(fmt::format("resumed after update {} from {}{}", updates, resume->folder,
                         setup.spec.begins_drained ? "; the first batch runs on the true weights" : ""));
    if (std::ssize(past.updates) < updates)
      loop.say(fmt::format("warning: metrics.jsonl has the lines of {} updates only", past.updates.size()));
  }
  const checkpoint::ModelFiles files = model_files(config, directory.path("from"));
  Checkpoints checkpoints(setup, config.run_dir, to_yaml(resolved), files,
                          resume ? resume->restored->position() : runtime::DataPosition());
  loop.save_with(checkpoints);
  introduce(setup, directory, [&](const std::string& line) { loop.note(line); });
  Collector collector(setup.spec.shape.workers());
  runtime::PipelineSetup pipeline_setup = setup.pipeline();
  pipeline_setup.record_events = !options.trace.empty();
  if (resume) pipeline_setup.restored = resume->restored;
  runtime::Observer observer = collector.observer();
  observer.on_snapshot = [&](runtime::Snapshot snapshot) { checkpoints.add(std::move(snapshot)); };
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
  while (!collector.exhausted()) {
    if (const auto report = collector.next(0.2))
      std::visit([&](const auto& what) { loop.handle(what); }, *report);
    if (interrupt_requested && !outcome.interrupted) {
      outcome.interrupted = true;
      loop.say(
          "interrupted: saving a checkpoint, then finishing the updates that have begun (again to quit at "
          "once)");
      pipeline.request_save(/*stop=*/true);
    }
    if (save_requested.exchange(false) || clock.is_due()) pipeline.request_save(/*stop=*/false);
    for (const checkpoint::Written& written : checkpoints.take_written()) loop.handle(written);
  }
  background.finish();

  if (!options.trace.empty()) telemetry::write_trace(options.trace, pipeline.events());
  save_model(pipeline, setup, files, directory.path("model"));
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
  outcome.curve = loop.statistics().curve();
  outcome.config = config;
  return outcome;
}

}  // namespace twobw::train
