#include "train/verify.h"

#include <bit>
#include <cmath>
#include <map>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "measure/split.h"
#include "models/model.h"
#include "runtime/oracle.h"
#include "runtime/pipeline.h"
#include "runtime/setup.h"

namespace twobw::train {
namespace {

// What the pipelines said of one update, workers put together.
struct Observed {
  std::map<std::pair<int, int>, telemetry::StageUpdate> workers;  // by replica and stage
  std::optional<double> evaluation;

  std::optional<double> loss() const {
    std::optional<double> mean;
    for (const auto& [worker, update] : workers) {
      if (update.loss) mean = mean.value_or(0) + *update.loss;
    }
    return mean;
  }
};

class Record {
 public:
  runtime::Observer observer() {
    return {.on_update =
                [this](telemetry::StageUpdate update) {
                  std::lock_guard lock(mutex_);
                  Observed& observed = updates_[update.update];
                  observed.workers[{update.replica, update.stage}] = std::move(update);
                },
            .on_evaluation =
                [this](telemetry::Evaluation evaluation) {
                  std::lock_guard lock(mutex_);
                  updates_[evaluation.update].evaluation = evaluation.loss;
                }};
  }
  const Observed& at(std::int64_t update) const { return updates_.at(update); }
  std::size_t size() const { return updates_.size(); }

 private:
  std::mutex mutex_;
  std::map<std::int64_t, Observed> updates_;
};

// What is not a number may have either sign: a sum of two such takes that of whichever the compiler put
// first.
bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

bool same(double seen, double expected, double within) {
  return same_bits(seen, expected) || std::abs(seen - expected) <= within * std::abs(expected);
}

std::string layer_name(const models::Model& model, std::size_t layer) {
  return fmt::format("layer {} ({})", layer, model.layers[layer].kind);
}

// Empty where the update is the same.
std::string compare_update(const runtime::Setup& setup, const Observed& seen,
                           const runtime::OracleUpdate& expected, double within) {
  const std::optional<double> loss = seen.loss();
  if (!loss) return fmt::format("update {}: the pipeline reported no loss", expected.update);
  if (!same(*loss, expected.loss, within)) {
    return fmt::format("update {}: loss {:.17g} in the pipeline, {:.17g} in the oracle", expected.update,
                       *loss, expected.loss);
  }
  std::size_t layer = 0;  // counted on from replica to replica
  for (const auto& [worker, update] : seen.workers) {
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
        return fmt::format("update {}: weights W({}) of {} on {} differ from the oracle's", expected.update,
                           expected.update + 1, layer_name(setup.model, index), who);
      }
    }
  }
  if (within == 0 && layer != expected.checksums.size() * setup.spec.shape.replicas)
    return fmt::format("update {}: weights of some layers are missing", expected.update);
  return {};
}

using ByName = std::map<std::string, at::Tensor>;

ByName weights_of(const runtime::Oracle& oracle) {
  ByName weights;
  for (int stage = 0; stage < oracle.stages(); ++stage) {
    const at::Tensor all = oracle.newest_weights(stage);
    for (const weights::Parameter& parameter : oracle.layout(stage).parameters())
      weights[parameter.spec.name] = all.narrow(0, parameter.offset, parameter.count);
  }
  return weights;
}

// How far the final weights are from the oracle's, as a fraction of their length.
std::string compare_length(const runtime::Pipeline& pipeline, const ByName& expected,
                           const schedule::Spec& spec, double within) {
  double off = 0, all = 0;
  for (int worker = 0; worker < spec.shape.workers(); ++worker) {
    const int replica = worker / spec.shape.stages, r = worker % spec.shape.stages;
    if (!pipeline.is_here(r, replica)) continue;
    const runtime::Stage& stage = pipeline.stage(r, replica);
    const at::Tensor weights = stage.newest_weights();
    for (const weights::Parameter& parameter : stage.layout().parameters()) {
      const at::Tensor want = expected.at(parameter.spec.name).to(at::kDouble);
      const at::Tensor got = weights.narrow(0, parameter.offset, parameter.count).to(at::kDouble);
      off += (got - want).square().sum().item<double>();
      all += want.square().sum().item<double>();
    }
  }
  const double fraction = std::sqrt(off / all);
  if (fraction <= within) return {};
  return fmt::format("final weights: off by {:.3g} of their length", fraction);
}

// The final weights themselves, element by element: names the first element that differs.
std::string compare_weights(const runtime::Pipeline& pipeline, const ByName& expected,
                            const schedule::Spec& spec) {
  for (int worker = 0; worker < spec.shape.workers(); ++worker) {
    const int replica = worker / spec.shape.stages, r = worker % spec.shape.stages;
    if (!pipeline.is_here(r, replica)) continue;
    const runtime::Stage& stage = pipeline.stage(r, replica);
    const at::Tensor weights = stage.newest_weights();
    for (const weights::Parameter& parameter : stage.layout().parameters()) {
      const float* got = weights.const_data_ptr<float>() + parameter.offset;
      const float* want = expected.at(parameter.spec.name).const_data_ptr<float>();
      for (std::int64_t i = 0; i < parameter.count; ++i) {
        if (std::bit_cast<std::uint32_t>(got[i]) == std::bit_cast<std::uint32_t>(want[i])) continue;
        return fmt::format("final weights: {}[{}] is {:.9g} on {}, {:.9g} in the oracle", parameter.spec.name,
                           i, got[i], schedule::worker_name(spec.shape.replicas, replica, r), want[i]);
      }
    }
  }
  return {};
}

void run_oracle(const runtime::Setup& setup, const schedule::Spec& rule, const Record& record,
                const runtime::Pipeline& pipeline, double within, Verification& result) {
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
  const ByName weights = weights_of(oracle);
  result.difference = within > 0 ? compare_length(pipeline, weights, setup.spec, within)
                                 : compare_weights(pipeline, weights, setup.spec);
}

}  // namespace

Verification verify(const Config& config, const VerifyOptions& options) {
  runtime::Setup setup = runtime::prepare(config);
  // Kernels that add in whatever order threads come have other bits every time.
  if (setup.devices.front().gpu && options.within == 0) device::compute_deterministically();
  const std::vector<int> cores = device::available_cores();
  for (std::size_t worker = 0; worker < setup.devices.size(); ++worker)
    setup.devices[worker].cores = {{cores[worker % cores.size()]}};
  measure::choose_split(setup);
  schedule::Spec rule = setup.spec;
  if (!options.against.empty()) rule.shape.schedule = schedule::parse_kind(options.against);

  Record record;
  runtime::PipelineSetup pipeline_setup = setup.pipeline();
  pipeline_setup.checksums = true;
  pipeline_setup.simulate_peers = options.simulate_peers;
  pipeline_setup.processes = options.processes;
  runtime::Pipeline pipeline(setup.config, setup.model, *setup.training, *setup.validation, pipeline_setup,
                             record.observer());
  rule.fallbacks = options.fallbacks;
  if (!options.fallbacks.empty()) {
    if (!rule.shape.predicts())
      fail_input("--fallback is for 2bw with prediction; pipeline.schedule is {}{}",
                 name(rule.shape.schedule), rule.shape.predict ? "" : ", pipeline.predict false");
    pipeline.hold_from(0);
    for (std::int64_t batch = 0; batch < setup.spec.updates; ++batch)
      pipeline.permit(batch, schedule::is_synchronous(rule, batch));
  }
  pipeline.run();

  Verification result{.split = setup.spec.shape.split,
                      .updates = setup.spec.updates,
                      .parameters = architecture::parameter_count(setup.model.layers)};
  result.peak_versions.resize(setup.spec.shape.stages);
  for (int worker = 0; worker < setup.spec.shape.workers(); ++worker) {
    const int r = worker % setup.spec.shape.stages, replica = worker / setup.spec.shape.stages;
    if (!pipeline.is_here(r, replica)) continue;
    const runtime::Stage& stage = pipeline.stage(r, replica);
    result.peak_versions[r] = std::max(result.peak_versions[r], stage.peak_versions());
  }
  if (options.processes && options.processes->rank() > 0) {
    result.equal = true;
    return result;
  }
  std::exception_ptr failure;
  std::thread([&] {
    try {
      run_oracle(setup, rule, record, pipeline, options.within, result);
    } catch (...) {
      failure = std::current_exception();
    }
  }).join();
  if (failure) std::rethrow_exception(failure);
  result.equal = result.difference.empty();
  return result;
}

}  // namespace twobw::train
