#include "app/train/recording.h"

#include <fmt/ranges.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <thread>
#include <utility>

#include "app/train/resume.h"
#include "core/base/error.h"
#include "core/base/loss_scaling.h"
#include "core/base/output_file.h"
#include "core/base/text.h"
#include "engine/checkpoint/store.h"
#include "engine/data/tokens.h"
#include "planning/architecture/families.h"

namespace twobw::train {
namespace {

std::string describe_start(const runtime::Setup& setup) {
  const checkpoint::HeadChange& change = setup.head_change;
  const std::string& folder = setup.config.model.from;
  std::string line = "starting from the weights in " + folder;
  if (setup.config.data.tokenizer == folder) line += ", with its tokenizer";
  if (!change.initialized.empty())
    line += fmt::format("; missing, so initialized: {}", fmt::join(change.initialized, ", "));
  if (!change.left_out.empty()) line += fmt::format("; left out: {}", fmt::join(change.left_out, ", "));
  return line;
}

// "all 64.0K tokens of FILE", "the first 12.8K of 64.0K tokens of FILE".
std::string describe_validation(const runtime::Setup& setup) {
  const Config& config = setup.config;
  const data::Source& source = *setup.validation;
  const bool tokens = architecture::head_of(config.model) == ModelHead::CausalLm;
  const auto shown = [&](std::int64_t sequences) {
    return tokens ? format_count(static_cast<double>(sequences) * config.model.context)
                  : fmt::format("{}", sequences);
  };
  const std::int64_t count = source.count();
  const std::int64_t evaluated = data::validation_portions(source, config).sequences();
  std::string part = shown(evaluated);
  if (count == evaluated) part = "all " + part;
  if (count > evaluated) part = fmt::format("the first {} of {}", part, shown(count));
  return fmt::format("{} {} of {}", part, tokens ? "tokens" : "sequences", source.describe());
}

// `given`: the configuration with `devices` as the user set them. `moved_to`: the new name of a former run in
// run_dir; empty without one. `hosts`: by rank; empty for one process. `say` gets one line at a time.
void print_header(const Config& given, const runtime::Setup& setup, const std::string& moved_to,
                  const std::vector<runtime::HostDevices>& hosts,
                  const std::function<void(const std::string&)>& say) {
  const Config& config = setup.config;
  if (!moved_to.empty()) say("the former run in " + config.run_dir + " is now in " + moved_to);
  say(fmt::format("{} with {} parameters in {}", config.model.family,
                  format_count(static_cast<double>(architecture::parameter_count(setup.model.layers))),
                  architecture::describe(setup.model.layers)));
  if (config.model.is_imported()) say(describe_start(setup));
  say("training on " + setup.training->describe());
  const schedule::Spec& spec = setup.spec;
  if (spec.evaluate_every > 0)
    say(fmt::format("validation on {}, every {} updates", describe_validation(setup), spec.evaluate_every));
  const bool replicated = spec.shape.replicas > 1;
  say(fmt::format("{}: {}{} stages, m={} microbatches of {} x {} tokens an update{}, e={}, {} updates",
                  name(config.pipeline.schedule),
                  replicated ? fmt::format("{} replicas of ", spec.shape.replicas) : "", spec.shape.stages,
                  spec.shape.microbatches, config.pipeline.microbatch, config.model.context,
                  replicated ? " and replica" : "", spec.shape.extra, spec.updates));
  if (spec.shape.predicts()) say("  weights predicted from the first " + schedule::describe_prediction(spec));
  const runtime::DeviceChoice devices =
      runtime::choose_devices(given, hosts.empty() ? std::vector{runtime::host_devices()} : hosts);
  if (!devices.reason.empty()) say("  " + devices.reason);
  for (int worker = 0; worker < spec.shape.workers(); ++worker) {
    const int stage = worker % spec.shape.stages;
    const int first = spec.shape.first_layer(stage), last = spec.shape.last_layer(stage) - 1;
    say(fmt::format("  {} on {}{}: layers {}..{} ({} to {}){}",
                    schedule::worker_name(spec.shape.replicas, worker / spec.shape.stages, stage),
                    device::describe(setup.devices[worker]), where_is(worker, spec.shape, hosts), first, last,
                    setup.model.layers[first].kind, setup.model.layers[last].kind,
                    spec.shape.recomputes(stage) ? ", recomputed" : ""));
  }
}

}  // namespace

Recording::Recording(const Config& asked, const Decision& decision, FolderLock lock,
                     const std::vector<std::string>& early, telemetry::Progress& progress,
                     const RunOptions& options)
    : decision_(decision),
      progress_(progress),
      options_(options),
      directory_(decision.run.config, std::move(lock), decision.resume && !is_branch(asked)),
      statistics_(decision.setup),
      guard_(decision.run.config),
      stragglers_(decision.setup, decision.hosts, decision.forecast ? &decision.forecast->plan : nullptr),
      outcome_{.config = decision.run.config, .summary = {}, .curve = {}} {
  const Config& config = decision.run.config;
  directory_.warn_with([this](const std::string& line) { progress_.say(line); });
  if (is_branch(asked)) begin_branch(asked);
  if (config.model.is_imported() && !decision.resume) directory_.keep_source(config.model.from);
  for (const std::string& line : early) directory_.log(line);
  if (decision.forecast)
    replace_text(directory_.path("profile.json"), planner::to_json(decision.forecast->profile));
  if (!decision.planned_for.is_null()) write_planned_for(config.run_dir, decision.planned_for);
  if (decision.resume) continue_metrics(resumed_run(asked));
  model_files_ = model_files(decision.setup.config, directory_.path("from"));
  checkpoints_.emplace(decision.setup, config, model_files_,
                       decision.restored ? decision.restored->position() : runtime::DataPosition());
}

// Copies all that the branch needs of the run that it continues, which may then be deleted.
void Recording::begin_branch(const Config& asked) {
  const std::string run = resumed_run(asked);
  if (asked.model.is_imported()) directory_.keep_source(run + "/from");
  std::error_code not_planned;
  std::filesystem::copy_file(run + "/profile.json", directory_.path("profile.json"), not_planned);
  checkpoint::copy_to(checkpoint::store_of(asked.run_dir), decision_.resume->folder);
}

void Recording::continue_metrics(const std::string& resumed) {
  const schedule::Spec& spec = decision_.run.spec;
  const std::int64_t updates = spec.first_batch, every = spec.evaluate_every;
  const ResumedMetrics past = copy_metrics(resumed + "/metrics.jsonl", directory_.path("metrics.jsonl"),
                                           updates, every > 0 && updates % every == 0);
  directory_.reopen_metrics();
  statistics_.continue_from(past);
  for (const PastUpdate& update : past.updates)
    guard_.add(update.update, update.loss, update.prediction_error);
  for (const std::string& line : warnings_of(*decision_.resume)) say(line);
  say(fmt::format("resumed after update {} from {}{}", updates, decision_.resume->folder,
                  spec.begins_drained ? "; the first batch runs on the true weights" : ""));
  if (decision_.forecast)
    say(describe_change(*decision_.resume, spec.shape,
                        decision_.hosts.empty() ? 1 : static_cast<int>(decision_.hosts.size())));
  if (std::ssize(past.updates) < updates)
    say(fmt::format("warning: metrics.jsonl has the lines of {} updates only", past.updates.size()));
}

void Recording::begin(const transport::Processes* processes) {
  const schedule::Spec& spec = decision_.run.spec;
  if (options_.on_record) {
    options_.on_record({{"run_dir", decision_.run.config.run_dir},
                        {"first_update", spec.first_batch + 1},
                        {"updates", spec.updates}});
  }
  print_header(decision_.run.config, decision_.setup, directory_.moved_to(), decision_.hosts,
               [this](const std::string& line) { note(line); });
  if (processes && !processes->wires().open_ports.empty())
    directory_.log("warning: other programs can connect to the ports for tensors: " +
                   processes->wires().open_ports);
}

void Recording::add_metrics(const nlohmann::ordered_json& line) {
  directory_.add_metrics(line);
  if (options_.on_record) options_.on_record(line);
}

void Recording::handle(const CompleteUpdate& update) {
  statistics_.add(update);
  nlohmann::ordered_json line = statistics_.metrics_line();
  const StragglerReport::Said slow = stragglers_.add(update);
  if (!slow.stragglers.empty()) line["stragglers"] = slow.stragglers;
  add_metrics(line);
  checkpoints_->add_update(update.update);
  for (const std::string& sentence : slow.lines) say(sentence);
  if (update.skipped) report_skip(update);
  const std::string warning = guard_.add(update.update, update.loss, update.prediction_error);
  if (!warning.empty()) say(warning);
  progress_.show({.update = update.update + 1,
                  .updates = decision_.run.spec.updates,
                  .loss = update.loss,
                  .learning_rate = update.learning_rate,
                  .gradient_norm = update.gradient_norm,
                  .tokens_per_s = statistics_.tokens_per_s(),
                  .utilisation = statistics_.utilisation(),
                  .seconds_left = statistics_.seconds_left()});
}

// With fp16 skips are how the loss scale finds its size, so they go to the log only, unless the scale is at
// its minimum or the loss itself is not finite.
void Recording::report_skip(const CompleteUpdate& update) {
  if (update.loss_scale > LossScaling::kLeast && std::isfinite(update.loss)) {
    directory_.log(
        fmt::format("update {} skipped by all stages: its gradient overflows at a loss scale of {}",
                    update.update + 1, update.loss_scale));
    return;
  }
  say(fmt::format("update {} skipped by all stages: its gradient is not finite", update.update + 1));
}

void Recording::handle(const telemetry::Evaluation& evaluation) {
  statistics_.add(evaluation);
  add_metrics({{"update", evaluation.update + 1}, {"validation_loss", evaluation.loss}});
  checkpoints_->add(evaluation);
  note(fmt::format("after update {}: validation loss {:.4f}", evaluation.update + 1, evaluation.loss));
}

void Recording::handle(const checkpoint::Written& written) {
  if (!written.problem.empty())
    return say(fmt::format("warning: no checkpoint after update {}: {}", written.update, written.problem));
  add_metrics({{"checkpoint", written.update}, {"bytes", written.bytes}, {"seconds", written.seconds}});
  note(fmt::format("saved a checkpoint after update {}: {} in {:.1f} s", written.update,
                   format_bytes(static_cast<double>(written.bytes)), written.seconds));
}

void Recording::say(const std::string& line) {
  progress_.say(line);
  directory_.log(line);
}

void Recording::note(const std::string& line) {
  if (!options_.brief) progress_.say(line);
  directory_.log(line);
}

void Recording::handle_written() {
  for (const checkpoint::Written& written : checkpoints_->take_written()) handle(written);
}

void Recording::write_trace(const std::string& file, const std::vector<telemetry::Event>& events) {
  try {
    telemetry::write_trace(file, events);
  } catch (const RunError& error) {
    outcome_.unwritten.emplace_back(error.what());
    directory_.log(fmt::format("warning: {}", error.what()));
  }
}

void Recording::write_when_there_is_room(const std::function<void()>& write) {
  constexpr std::chrono::seconds kPatience(60), kPause(1);
  const auto begin = std::chrono::steady_clock::now();
  for (bool has_said = false; true; has_said = true) {
    try {
      return write();
    } catch (const NoRoom& full) {
      if (std::chrono::steady_clock::now() - begin > kPatience) throw;
      if (!has_said) say(fmt::format("warning: {}; trying again for {} s", full.what(), kPatience.count()));
    }
    std::this_thread::sleep_for(kPause);
  }
}

void Recording::write_results(const StageWeights& weights_of, bool interrupted) {
  write_when_there_is_room(
      [&] { save_model(weights_of, decision_.setup, model_files_, directory_.path("model")); });
  outcome_.interrupted = interrupted;
  outcome_.summary = statistics_.summary();
  outcome_.summary["interrupted"] = interrupted;
  if (decision_.forecast)
    outcome_.summary["forecast"] = measure::compare(decision_.forecast->plan, outcome_.summary);
  write_when_there_is_room(
      [&] { replace_text(directory_.path("summary.json"), outcome_.summary.dump(2) + "\n"); });
  checkpoints_->finish();
  handle_written();
  directory_.log("done: " + outcome_.summary.dump());
}

Outcome Recording::finish() {
  for (const std::string& sentence : directory_.finish()) outcome_.unwritten.push_back(sentence);
  outcome_.curve = statistics_.curve();
  return std::move(outcome_);
}

}  // namespace twobw::train
