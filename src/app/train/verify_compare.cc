#include "app/train/verify_compare.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "engine/models/model.h"
#include "engine/weights/layout.h"

namespace twobw::train {
namespace {

// What is not a number may have either sign: a sum of two such takes that of whichever the compiler put
// first.
bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

std::string layer_name(const models::Model& model, std::size_t layer) {
  return fmt::format("layer {} ({})", layer, model.layers[layer].kind);
}

// Calls `compare` with the name of each worker and the weights of each of its parameters, until it gives a
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

}  // namespace

bool same(double seen, double expected, double within) {
  return same_bits(seen, expected) || std::abs(seen - expected) <= within * std::abs(expected);
}

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

WeightsByName weights_by_name(const runtime::Oracle& oracle) {
  WeightsByName weights;
  for (int stage = 0; stage < oracle.stages(); ++stage) {
    const at::Tensor all = oracle.newest_weights(stage);
    for (const weights::Parameter& parameter : oracle.layout(stage).parameters())
      weights[parameter.spec.name] = all.narrow(0, parameter.offset, parameter.count);
  }
  return weights;
}

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

}  // namespace twobw::train
