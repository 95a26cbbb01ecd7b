#include "app/train/verify.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <thread>

#include "app/measure/split.h"
#include "app/train/decision.h"
#include "app/train/state_transfer.h"
#include "app/train/verify_compare.h"
#include "core/base/codec.h"
#include "core/base/error.h"
#include "engine/runtime/oracle.h"
#include "engine/runtime/pipeline.h"
#include "engine/runtime/rank_map.h"
#include "engine/runtime/setup.h"
#include "engine/transport/processes.h"

namespace twobw::train {
namespace {

void run_oracle(const runtime::Setup& setup, const schedule::Spec& rule, const Record& record,
                const WorkerWeights& final_weights, double within, Verification& result) {
  // On a device as large as the stages': libraries choose their algorithms by that.
  const device::DeviceBinding binding("oracle", setup.devices.front());
  const at::TensorOptions compute = binding.compute(setup.config.train.precision);
  runtime::Oracle oracle(setup.config, setup.model, *setup.training, rule, compute);
  for (std::int64_t update = 0; update < setup.spec.updates && result.difference.empty(); ++update) {
    const runtime::OracleUpdate expected = oracle.next_update();
    const Observed& seen = record.at(update);
    result.skipped += expected.skipped;
    result.final_loss = expected.loss;
    result.difference = compare_update(setup, seen, expected, within);
    if (!result.difference.empty() || !seen.evaluation) continue;
    const double validation = oracle.evaluate(*setup.validation);
    if (!same(*seen.evaluation, validation, within)) {
      result.difference =
          fmt::format("update {}: validation loss {:.17g} in the pipeline, {:.17g} in the oracle", update,
                      *seen.evaluation, validation);
    }
  }
  if (!result.difference.empty()) return;
  const WeightsByName weights = weights_by_name(oracle);
  result.difference = within > 0 ? compare_length(final_weights, weights, setup, within)
                                 : compare_weights(final_weights, weights, setup);
}

// The shape whose rule the oracle follows.
PipelineShape rule_of(const PipelineShape& own, const VerifyOptions& options) {
  PipelineShape shape = own;
  if (!options.against.empty()) shape.schedule = schedule::parse_kind(options.against);
  return shape;
}

// Kernels that add in whatever order threads come have other bits every time.
void make_comparable(const runtime::Setup& setup, const VerifyOptions& options) {
  if (setup.devices.front().gpu && options.within == 0) device::compute_deterministically();
}

// Each worker with one thread.
runtime::Setup prepare_alone(const Config& config, const VerifyOptions& options) {
  runtime::Setup setup = runtime::prepare(config, {}, runtime::AutoDevices::SameBits);
  make_comparable(setup, options);
  const std::vector<int> cores = device::available_cores();
  for (std::size_t worker = 0; worker < setup.devices.size(); ++worker)
    setup.devices[worker].cores = {{cores[worker % cores.size()]}};
  measure::choose_split(setup);
  return setup;
}

// Rank 0 decides on devices and split.
runtime::Setup prepare_together(const Config& config, const VerifyOptions& options) {
  transport::Processes& processes = *options.processes;
  const std::vector<runtime::HostDevices> hosts = gather_hosts(processes);
  if (processes.rank() > 0) {
    runtime::Setup setup = load(decode_run(processes.mail().receive(0)));
    make_comparable(setup, options);
    return setup;
  }
  std::vector<device::Device> devices =
      runtime::devices_of_processes(config, hosts, runtime::AutoDevices::SameBits);
  for (device::Device& device : devices) device.cores.cores.resize(1);
  runtime::Setup setup = runtime::prepare(config, std::move(devices));
  make_comparable(setup, options);
  measure::choose_split(setup);
  Config decided = config;
  decided.checkpoint = {};
  processes.mail().send_to_others(
      encode_run(decide(decided, setup.spec.shape.split, setup.devices, {}, setup.model.layers)));
  return setup;
}

// Of the workers here, by stage.
std::vector<int> peak_versions_here(const runtime::Pipeline& pipeline, const PipelineShape& shape) {
  std::vector<int> peaks(shape.stages);
  for (int worker = 0; worker < shape.workers(); ++worker) {
    const int stage = worker % shape.stages, replica = worker / shape.stages;
    if (pipeline.is_here(stage, replica))
      peaks[stage] = std::max(peaks[stage], pipeline.stage(stage, replica).peak_versions());
  }
  return peaks;
}

// Tells rank 0 what the workers here ended with, and hears whether all are as the oracle.
bool report_to_rank_zero(const std::shared_ptr<transport::Processes>& processes,
                         const runtime::Pipeline& pipeline, const PipelineShape& shape,
                         const std::vector<int>& peaks) {
  processes->mail().send(0, to_bytes(peaks));
  StateSender(processes, /*room=*/0).finish(weights_here(pipeline, shape, /*all_replicas=*/true));
  return processes->mail().receive(0) == "equal";
}

void add_peaks_elsewhere(transport::Processes& processes, std::vector<int>& peaks) {
  for (int rank = 1; rank < processes.size(); ++rank) {
    const auto theirs = from_bytes<std::vector<int>>(processes.mail().receive(rank));
    for (std::size_t stage = 0; stage < peaks.size(); ++stage)
      peaks[stage] = std::max(peaks[stage], theirs.at(stage));
  }
}

Verification run_and_compare(const Config& config, const VerifyOptions& options) {
  transport::Processes* const processes = options.processes.get();
  rule_of(config.pipeline, options);  // refuses
  if (processes) runtime::RankMap(config.pipeline, processes->size(), processes->rank());
  runtime::Setup setup = processes ? prepare_together(config, options) : prepare_alone(config, options);
  schedule::Spec rule = setup.spec;
  rule.shape = rule_of(setup.spec.shape, options);

  Record record;
  runtime::PipelineSetup pipeline_setup = setup.pipeline();
  pipeline_setup.checksums = true;
  pipeline_setup.simulate_peers = options.simulate_peers;
  pipeline_setup.processes = options.processes;
  runtime::Pipeline pipeline(setup.config, setup.model, *setup.training, *setup.validation, pipeline_setup,
                             record.observer());
  pipeline.run();

  const PipelineShape& shape = setup.spec.shape;
  Verification result{.split = shape.split,
                      .updates = setup.spec.updates,
                      .parameters = architecture::parameter_count(setup.model.layers)};
  result.peak_versions = peak_versions_here(pipeline, shape);
  if (processes && processes->rank() > 0) {
    result.equal = report_to_rank_zero(options.processes, pipeline, shape, result.peak_versions);
    return result;
  }
  std::optional<StateReceiver> elsewhere;
  if (processes) {
    elsewhere.emplace(options.processes, setup.model, shape, [](const runtime::Snapshot&) {});
    elsewhere->finish();
    add_peaks_elsewhere(*processes, result.peak_versions);
  }
  const auto final_weights = [&](int worker) {
    const int stage = worker % shape.stages, replica = worker / shape.stages;
    return pipeline.is_here(stage, replica) ? pipeline.stage(stage, replica).newest_weights()
                                            : elsewhere->weights(stage, replica);
  };
  std::exception_ptr failure;
  std::thread([&] {
    try {
      run_oracle(setup, rule, record, final_weights, options.within, result);
    } catch (...) {
      failure = std::current_exception();
    }
  }).join();
  if (failure) std::rethrow_exception(failure);
  result.equal = result.difference.empty();
  if (processes) processes->mail().send_to_others(result.equal ? "equal" : "different");
  return result;
}

}  // namespace

Verification verify(const Config& config, const VerifyOptions& options) {
  return transport::abort_on_failure(options.processes.get(),
                                     [&] { return run_and_compare(config, options); });
}

}  // namespace twobw::train
