#include "train/verify.h"

#include <bit>
#include <cmath>
#include <map>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "models/model.h"
#include "runtime/oracle.h"
#include "runtime/pipeline.h"
#include "train/setup.h"

namespace twobw::train {
namespace {

// What the pipelines said of one update, workers put together.
struct Observed {
  std::map<std::pair<int, int>, telemetry::StageUpdate> workers;  // by replica and stage
  std::optional<double> evaluation;

  std::optional<double> loss() const {
    std::optional<double> mean;
    for (const auto& [place, update] : workers) {
      if (update.loss) mean = mean.value_or(0) + *update.loss;
    }
    return mean;
  }
};

class Record {
 public:
  runtime::Listener listener() {
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

std::string layer_name(const models::LayerList& model, std::size_t layer) {
  return fmt::format("layer {} ({})", layer, model[layer]->kind());
}

// Empty where the update is the same.
std::string compare_update(const Setup& setup, const Observed& seen, const runtime::OracleUpdate& expected,
                           double within) {
  const std::optional<double> loss = seen.loss();
  if (!loss) return fmt::format("update {}: the pipeline reported no loss", expected.update);
  if (!same(*loss, expected.loss, within)) {
    return fmt::format("update {}: loss {:.17g} in the pipeline, {:.17g} in the oracle", expected.update,
                       *loss, expected.loss);
  }
  std::size_t layer = 0;  // counted on from replica to replica
  for (const auto& [place, update] : seen.workers) {
    const std::string who = schedule::worker_name(setup.spec.replicas, update.replica, update.stage);
    if (!same(update.gradient_norm, expected.gradient_norm, within)) {
      return fmt::format("update {}: gradient norm {:.17g} on {}, {:.17g} in the oracle", expected.update,
                         update.gradient_norm, who, expected.gradient_norm);
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
  if (within == 0 && layer != expected.checksums.size() * setup.spec.replicas)
    return fmt::format("update {}: weights of some layers are missing", expected.update);
  return {};
}

using ByName = std::map<std::string, at::Tensor>;

ByName weights_of(const runtime::Oracle& oracle) {
  const at::Tensor all = oracle.newest_weights();
  ByName weights;
  for (const weights::Parameter& parameter : oracle.layout().parameters())
    weights[parameter.spec.name] = all.narrow(0, parameter.offset, parameter.count);
  return weights;
}

// How far the final weights are from the oracle's, as a fraction of their length.
std::string compare_length(const runtime::Pipeline& pipeline, const ByName& expected,
                           const schedule::Spec& spec, double within) {
  double off = 0, all = 0;
  for (int worker = 0; worker < schedule::workers(spec); ++worker) {
    const runtime::Stage& stage = pipeline.stage(worker % spec.stages, worker / spec.stages);
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
  for (int worker = 0; worker < schedule::workers(spec); ++worker) {
    const int replica = worker / spec.stages, r = worker % spec.stages;
    const runtime::Stage& stage = pipeline.stage(r, replica);
    const at::Tensor weights = stage.newest_weights();
    for (const weights::Parameter& parameter : stage.layout().parameters()) {
      const float* got = weights.const_data_ptr<float>() + parameter.offset;
      const float* want = expected.at(parameter.spec.name).const_data_ptr<float>();
      for (std::int64_t i = 0; i < parameter.count; ++i) {
        if (std::bit_cast<std::uint32_t>(got[i]) == std::bit_cast<std::uint32_t>(want[i])) continue;
        return fmt::format("final weights: {}[{}] is {:.9g} on {}, {:.9g} in the oracle", parameter.spec.name,
                           i, got[i], schedule::worker_name(spec.replicas, replica, r), want[i]);
      }
    }
  }
  return {};
}

void run_oracle(const Setup& setup, const schedule::Spec& rule, const Record& record,
                const runtime::Pipeline& pipeline, double within, Verdict& verdict) {
  // On a device as large as the stages': libraries choose their algorithms by that.
  const device::Seat seat("oracle", setup.places.front());
  const at::TensorOptions compute = seat.compute(setup.config.train.precision);
  runtime::Oracle oracle(setup.config, setup.model, *setup.training, rule, setup.split, compute);
  for (std::int64_t update = 0; update < setup.spec.updates && verdict.difference.empty(); ++update) {
    const runtime::OracleUpdate expected = oracle.next_update();
    const Observed& seen = record.at(update);
    verdict.skipped += expected.skipped;
    verdict.final_loss = expected.loss;
    verdict.difference = compare_update(setup, seen, expected, within);
    if (!verdict.difference.empty() || !seen.evaluation) continue;
    const double validation = oracle.evaluate(*setup.validation);
    if (!same(*seen.evaluation, validation, within)) {
      verdict.difference =
          fmt::format("update {}: validation loss {:.17g} in the pipeline, {:.17g} in the oracle", update,
                      *seen.evaluation, validation);
    }
  }
  if (!verdict.difference.empty()) return;
  const ByName weights = weights_of(oracle);
  verdict.difference = within > 0 ? compare_length(pipeline, weights, setup.spec, within)
                                  : compare_weights(pipeline, weights, setup.spec);
}

}  // namespace

Verdict verify(const Config& config, const VerifyOptions& options) {
  Setup setup = prepare(config);
  // Kernels that add in whatever order threads come have other bits every time.
  if (setup.places.front().gpu && options.within == 0) {
    at::globalContext().setDeterministicFillUninitializedMemory(false);
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  }
  schedule::Spec rule = setup.spec;
  if (!options.against.empty()) rule.kind = schedule::parse_kind(options.against);
  const std::vector<int> cores = device::available_cores();
  for (std::size_t worker = 0; worker < setup.places.size(); ++worker)
    setup.places[worker].cores = {{cores[worker % cores.size()]}};
  choose_split(setup);

  Record record;
  runtime::PipelineSetup pipeline_setup = setup.pipeline();
  pipeline_setup.checksums = true;
  pipeline_setup.as_if_apart = options.as_if_apart;
  runtime::Pipeline pipeline(setup.config, setup.model, *setup.training, *setup.validation, pipeline_setup,
                             record.listener());
  pipeline.run();

  Verdict verdict{.split = setup.split,
                  .updates = setup.spec.updates,
                  .parameters = models::parameter_count(setup.model)};
  verdict.peak_versions.resize(setup.spec.stages);
  for (int worker = 0; worker < schedule::workers(setup.spec); ++worker) {
    const int r = worker % setup.spec.stages;
    const runtime::Stage& stage = pipeline.stage(r, worker / setup.spec.stages);
    verdict.peak_versions[r] = std::max(verdict.peak_versions[r], stage.peak_versions());
  }
  std::exception_ptr failure;
  std::thread([&] {
    try {
      run_oracle(setup, rule, record, pipeline, options.within, verdict);
    } catch (...) {
      failure = std::current_exception();
    }
  }).join();
  if (failure) std::rethrow_exception(failure);
  verdict.equal = verdict.difference.empty();
  return verdict;
}

}  // namespace twobw::train
