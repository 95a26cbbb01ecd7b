#include "runtime/stage.h"

#include <algorithm>

#include "weights/checksum.h"

namespace twobw::runtime {

using at::Tensor;

Stage::Stage(const Config& config, const models::Model& model, const data::Source& training,
             const data::Source& validation, const StageSetup& setup, const at::TensorOptions& compute)
    : config_(config),
      model_(model),
      training_(training),
      validation_(validation),
      setup_(setup),
      layout_(model.layers, setup.first_layer, setup.last_layer),
      versions_(layout_, setup.versions, config.train.seed, compute),
      gradients_(layout_, setup.gradient_buffers, compute) {}

Tensors Stage::run_layers(std::span<const Tensor> parameters, Tensors x, const models::Pass& pass) const {
  return models::run_layers(model_, setup_.first_layer, setup_.last_layer, parameters, std::move(x), pass);
}

void Stage::sum_local_ties(std::int64_t batch) {
  for (const weights::Tie& tie : layout_.ties()) {
    if (tie.primary >= 0 && tie.copy >= 0)
      gradients_.of(batch, tie.primary).add_(gradients_.of(batch, tie.copy));
  }
}

int Stage::spanning_tie() const {
  for (const weights::Tie& tie : layout_.ties()) {
    if (tie.primary < 0 || tie.copy < 0) return std::max(tie.primary, tie.copy);
  }
  return -1;
}

bool Stage::holds_tie_primary() const {
  return spanning_tie() >= 0 && layout_.parameters()[spanning_tie()].spec.tied_to.empty();
}

bool Stage::holds_tie_copy() const {
  return spanning_tie() >= 0 && !layout_.parameters()[spanning_tie()].spec.tied_to.empty();
}

void Stage::add_tied_gradient(std::int64_t batch, const Tensor& other) {
  gradients_.of(batch, spanning_tie()).add_(other);
}

std::vector<std::pair<std::int64_t, std::int64_t>> Stage::tied_ranges() const {
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
  for (const weights::Tie& tie : layout_.ties()) {
    if (tie.primary < 0) continue;
    const weights::Parameter& parameter = layout_.parameters()[tie.primary];
    ranges.emplace_back(parameter.gradient_offset, parameter.count);
  }
  return ranges;
}

std::vector<std::uint64_t> Stage::layer_checksums() const {
  return weights::layer_checksums(layout_, newest_weights());
}

}  // namespace twobw::runtime
