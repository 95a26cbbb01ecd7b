#include "app/train/run_header.h"

#include <fmt/ranges.h>

#include "core/base/text.h"
#include "engine/data/tokens.h"
#include "engine/runtime/process_devices.h"
#include "engine/runtime/rank_map.h"
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

}  // namespace

int process_of(int worker, const PipelineShape& shape, const std::vector<runtime::HostDevices>& hosts) {
  return runtime::RankMap(shape, static_cast<int>(hosts.size()), /*rank=*/0).rank_of(worker);
}

std::string where_is(int worker, const PipelineShape& shape, const std::vector<runtime::HostDevices>& hosts) {
  if (hosts.empty()) return {};
  const int process = process_of(worker, shape, hosts);
  return fmt::format(" of {} (process {})", hosts[process].host, process);
}

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

}  // namespace twobw::train
