#include "app/train/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <future>
#include <optional>

#include "app/measure/split.h"
#include "app/train/decision.h"
#include "app/train/state_transfer.h"
#include "app/train/statistics.h"
#include "core/base/codec.h"
#include "core/base/error.h"
#include "engine/models/model.h"
#include "engine/runtime/oracle.h"
#include "engine/runtime/pipeline.h"
#include "engine/runtime/rank_map.h"
#include "engine/runtime/setup.h"
#include "engine/weights/layout.h"

namespace twobw::train {
namespace {

// The reports of a run, by update.
struct Reports {
  std::map<std::int64_t, CompleteUpdate> updates;
  std::map<std::int64_t, double> evaluations;
};

Reports take_reports(Collector& collector) {
  Reports reports;
  while (const std::optional<Report> report = collector.next(/*seconds=*/0)) {
    if (const auto* update = std::get_if<CompleteUpdate>(&*report)) {
      reports.updates.emplace(update->update, *update);
    } else {
      const auto& evaluation = std::get<telemetry::Evaluation>(*report);
      reports.evaluations[evaluation.update] = evaluation.loss;
    }
  }
  return reports;
}

using WeightsByName = std::map<std::string, at::Tensor>;
// Flat, of a worker by its number.
using WorkerWeights = std::function<at::Tensor(int worker)>;

// NaN may have either sign: a sum of two takes that of the operand that the compiler put first.
bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

// Calls `compare` with the name of each worker and the weights of each of its parameters, until it returns a
// difference.
template <typename Compare>
std::string find_difference(const WorkerWeights& weights, const runtime::Setup& setup, Compare compare) {
  const PipelineShape& shape = setup.spec.shape;
  for (int worker = 0; worker < shape.workers(); ++worker) {
    const int replica = worker / shape.stages, stage = worker % shape.stages;
    const at::Tensor all = weights(worker);
    const std::string who = schedule::worker_name(shape.replicas, replica, stage);
    if (!all.defined()) return fmt::format("final weights: none came from {}", who);
    const weights::Layout layout(setup.model.layers, shape.first_layer(stage), shape.last_layer(stage));
    for (const weights::Parameter& parameter : layout.parameters()) {
      const at::Tensor got = all.narrow(0, parameter.offset, parameter.count);
      std::string difference = compare(who, parameter.spec.name, got);
      if (!difference.empty()) return difference;
    }
  }
  return {};
}

// Whether the figures are the same bits, or off by no more than this fraction.
bool same(double seen, double expected, double within) {
  return same_bits(seen, expected) || std::abs(seen - expected) <= within * std::abs(expected);
}

// Returns the first difference in words, else an empty string, as the two below do.
std::string compare_update(const runtime::Setup& setup, const CompleteUpdate& seen,
                           const runtime::OracleUpdate& expected, double within) {
  if (!same(seen.loss, expected.loss, within)) {
    return fmt::format("update {}: loss {:.17g} in the pipeline, {:.17g} in the oracle", expected.update,
                       seen.loss, expected.loss);
  }
  std::size_t layer = 0;  // counted on from replica to replica
  for (const telemetry::StageUpdate& update : seen.stages) {
    const std::string who = schedule::worker_name(setup.spec.shape.replicas, update.replica, update.stage);
    if (!same(update.gradient_norm, expected.gradient_norm, within)) {
      return fmt::format("update {}: gradient norm {:.17g} on {}, {:.17g} in the oracle", expected.update,
                         update.gradient_norm, who, expected.gradient_norm);
    }
    if (update.loss_scale != expected.loss_scale) {
      return fmt::format("update {}: loss scale {} on {}, {} in the oracle", expected.update,
                         update.loss_scale, who, expected.loss_scale);
    }
    if (update.skipped != expected.skipped) {
      return fmt::format("update {}: skipped by one of {} and the oracle", expected.update, who);
    }
    if (within > 0) continue;
    for (std::uint64_t checksum : update.checksums) {
      const std::size_t index = layer++ % expected.checksums.size();
      if (checksum != expected.checksums[index]) {
        return fmt::format("update {}: weights W({}) of layer {} ({}) on {} differ from the oracle's",
                           expected.update, expected.update + 1, index, setup.model.layers[index].kind, who);
      }
    }
  }
  if (within == 0 && layer != expected.checksums.size() * setup.spec.shape.replicas)
    return fmt::format("update {}: weights of some layers are missing", expected.update);
  return {};
}

WeightsByName weights_by_name(const runtime::Oracle& oracle) {
  WeightsByName weights;
  for (int stage = 0; stage < oracle.stages(); ++stage) {
    const at::Tensor all = oracle.newest_weights(stage);
    for (const weights::Parameter& parameter : oracle.layout(stage).parameters())
      weights[parameter.spec.name] = all.narrow(0, parameter.offset, parameter.count);
  }
  return weights;
}

// Compares the distance of the final weights from the oracle's, as a fraction of their length.
std::string compare_length(const WorkerWeights& weights, const WeightsByName& expected,
                           const runtime::Setup& setup, double within) {
  double off = 0, all = 0;
  const auto add = [&](const std::string&, const std::string& name, const at::Tensor& weight) {
    const at::Tensor want = expected.at(name).to(at::kDouble), got = weight.to(at::kDouble);
    off += (got - want).square().sum().item<double>();
    all += want.square().sum().item<double>();
    return std::string();
  };
  std::string missing = find_difference(weights, setup, add);
  if (!missing.empty()) return missing;
  const double fraction = std::sqrt(off / all);
  if (fraction <= within) return {};
  return fmt::format("final weights: off by {:.3g} of their length", fraction);
}

// Compares the final weights element by element.
std::string compare_weights(const WorkerWeights& weights, const WeightsByName& expected,
                            const runtime::Setup& setup) {
  const auto compare = [&](const std::string& who, const std::string& name, const at::Tensor& weight) {
    const float* got = weight.const_data_ptr<float>();
    const float* want = expected.at(name).const_data_ptr<float>();
    for (std::int64_t i = 0; i < weight.numel(); ++i) {
      if (std::bit_cast<std::uint32_t>(got[i]) == std::bit_cast<std::uint32_t>(want[i])) continue;
      return fmt::format("final weights: {}[{}] is {:.9g} on {}, {:.9g} in the oracle", name, i, got[i], who,
                         want[i]);
    }
    return std::string();
  };
  return find_difference(weights, setup, compare);
}

void run_oracle(const runtime::Setup& setup, const schedule::Spec& rule, const Reports& reports,
                const WorkerWeights& final_weights, double within, Verification& result) {
  // On a device as large as the stages': libraries choose their algorithms by that.
  const device::DeviceBinding binding("oracle", setup.devices.front());
  const at::TensorOptions compute = binding.compute(setup.config.train.precision);
  runtime::Oracle oracle(setup.config, setup.model, *setup.training, rule, compute);
  for (std::int64_t update = 0; update < setup.spec.updates && result.difference.empty(); ++update) {
    const runtime::OracleUpdate expected = oracle.next_update();
    const auto seen = reports.evaluations.find(update);
    result.skipped += expected.skipped;
    result.final_loss = expected.loss;
    result.difference = compare_update(setup, reports.updates.at(update), expected, within);
    if (!result.difference.empty() || seen == reports.evaluations.end()) continue;
    const double validation = oracle.evaluate(*setup.validation);
    if (!same(seen->second, validation, within)) {
      result.difference =
          fmt::format("update {}: validation loss {:.17g} in the pipeline, {:.17g} in the oracle", update,
                      seen->second, validation);
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

// Kernels whose threads add in any order give other bits every time.
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

// Peaks of the local workers, by stage.
std::vector<int> peak_versions_here(const runtime::Pipeline& pipeline, const PipelineShape& shape) {
  std::vector<int> peaks(shape.stages);
  for (int worker = 0; worker < shape.workers(); ++worker) {
    const int stage = worker % shape.stages, replica = worker / shape.stages;
    if (pipeline.is_here(stage, replica))
      peaks[stage] = std::max(peaks[stage], pipeline.stage(stage, replica).peak_versions());
  }
  return peaks;
}

// Sends the final state of the local workers to rank 0. Returns its verdict.
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

  Collector collector(setup.spec.shape.workers());
  runtime::Pipeline pipeline(
      setup, {.checksums = true, .simulate_peers = options.simulate_peers, .processes = options.processes},
      collector.observer());
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
  const Reports reports = take_reports(collector);
  std::async(std::launch::async, [&] {
    run_oracle(setup, rule, reports, final_weights, options.within, result);
  }).get();
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
