#include "train/trainer.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <thread>

#include "base/error.h"
#include "base/text.h"
#include "base/text_file.h"
#include "measure/forecast.h"
#include "measure/split.h"
#include "models/model.h"
#include "runtime/setup.h"
#include "telemetry/progress.h"
#include "telemetry/trace.h"
#include "train/collector.h"
#include "train/export.h"
#include "train/guard.h"
#include "train/run_directory.h"
#include "train/statistics.h"

namespace twobw::train {
namespace {

std::atomic<bool> interrupt_requested{false};

// While it lives, the first Ctrl-C (or SIGTERM) asks the run to end; the second ends the program.
class InterruptGuard {
 public:
  InterruptGuard() {
    interrupt_requested = false;
    struct sigaction action {};
    action.sa_handler = [](int) { interrupt_requested = true; };
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    sigaction(SIGINT, &action, &former_int_);
    sigaction(SIGTERM, &action, &former_term_);
  }
  ~InterruptGuard() {
    sigaction(SIGINT, &former_int_, nullptr);
    sigaction(SIGTERM, &former_term_, nullptr);
  }

 private:
  struct sigaction former_int_ {
  }, former_term_{};
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

void introduce(const runtime::Setup& setup, RunDirectory& directory,
               const std::function<void(const std::string&)>& say) {
  const Config& config = setup.config;
  if (!directory.moved_to().empty())
    say("the former run in " + config.run_dir + " is now in " + directory.moved_to());
  say(fmt::format("{} with {} parameters in {}", config.model.family,
                  format_count(static_cast<double>(architecture::parameter_count(setup.model.layers))),
                  architecture::describe(setup.model.layers)));
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

  // To be called before the first update.
  void guard_with(Permit permit) { permit_ = std::move(permit); }
  const Guard& guard() const { return guard_; }

  void handle(const CompleteUpdate& update) {
    statistics_.add(update);
    nlohmann::ordered_json line = statistics_.metrics_line();
    if (guard_.fell_back_at(update.update)) line["fallback"] = true;
    directory_.add_metrics(line);
    if (update.skipped)
      say(fmt::format("update {} skipped by all stages: its gradient is not finite", update.update + 1));
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

  void handle(const telemetry::Evaluation& evaluation) {
    statistics_.add(evaluation);
    directory_.add_metrics({{"update", evaluation.update + 1}, {"validation_loss", evaluation.loss}});
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
};

}  // namespace

Outcome train(const Config& asked, const RunOptions& options) {
  telemetry::Progress progress(isatty(STDOUT_FILENO) != 0);
  std::optional<measure::Forecast> forecast;
  std::vector<std::string> said;  // before there is a log
  if (asked.plan == "auto") {
    forecast = measure::plan_run(asked, [&](const std::string& line) {
      progress.say(line);
      said.push_back(line);
    });
  }
  const Config& config = forecast ? forecast->config : asked;
  runtime::Setup setup = runtime::prepare(config);
  RunDirectory directory(config);
  for (const std::string& line : said) directory.log(line);
  if (forecast) write_text(directory.path("profile.json"), planner::to_json(forecast->profile));
  measure::choose_split(setup);
  Config resolved = config;
  resolved.pipeline.split = setup.spec.shape.split;
  directory.write_config(resolved);

  InterruptGuard guard;
  Outcome outcome;
  Loop loop(setup, directory, progress, options.brief);
  introduce(setup, directory, [&](const std::string& line) { loop.note(line); });
  Collector collector(setup.spec.shape.workers());
  runtime::PipelineSetup pipeline_setup = setup.pipeline();
  pipeline_setup.record_events = !options.trace.empty();
  runtime::Pipeline pipeline(setup.config, setup.model, *setup.training, *setup.validation, pipeline_setup,
                             collector.observer());
  if (loop.guard().falls_back()) {
    pipeline.hold_from(Guard::kAhead);
    loop.guard_with([&](std::int64_t batch, bool synchronous) { pipeline.permit(batch, synchronous); });
  }
  Background background(pipeline, collector);
  while (!collector.exhausted()) {
    if (const auto report = collector.next(0.2))
      std::visit([&](const auto& what) { loop.handle(what); }, *report);
    if (interrupt_requested && !outcome.interrupted) {
      outcome.interrupted = true;
      loop.say("interrupted: finishing the updates that have begun (again to quit at once)");
      pipeline.request_stop();
    }
  }
  background.finish();

  if (!options.trace.empty()) telemetry::write_trace(options.trace, pipeline.events());
  save_model(pipeline, setup, directory.path("model.safetensors"));
  outcome.summary = loop.statistics().summary();
  outcome.summary["interrupted"] = outcome.interrupted;
  if (loop.guard().falls_back())
    outcome.summary["fallbacks"] =
        updates_of(loop.guard().fallbacks(), outcome.summary["updates"].get<std::int64_t>());
  if (forecast) outcome.summary["forecast"] = measure::compare(forecast->plan, outcome.summary);
  directory.write_summary(outcome.summary);
  directory.log("done: " + outcome.summary.dump());
  outcome.curve = loop.statistics().curve();
  outcome.config = config;
  return outcome;
}

}  // namespace twobw::train
