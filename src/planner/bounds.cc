#include "planner/bounds.h"

#include <algorithm>

namespace twobw::planner {
namespace {

using schedule::Kind;

int most_stages(const Problem& problem, const Setting& setting, const Places& places,
                std::optional<int> exactly) {
  int most = std::min(static_cast<int>(problem.layers.size()), places.all().front().reach);
  if (exactly) most = std::min(most, *exactly);
  while (most > 0 && schedule::smallest_microbatches(spec_of(setting, most)) > setting.microbatches) --most;
  return most;
}

}  // namespace

// Some stage has the largest layer, and some stage at least its part of the whole.
Bounds::Bounds(const Problem& problem, const Setting& setting, const Places& places, const LoadsByKind& loads,
               std::optional<int> exactly)
    : setting_(setting), stages_(most_stages(problem, setting, places, exactly)) {
  const int layers = static_cast<int>(problem.layers.size());
  compute_.assign(layers + 1, 0);
  parameters_.assign(layers + 1, 0);
  double slowest = 0, largest = 0;
  for (int layer = 0; layer < layers; ++layer) {
    double least = kUnlimited;
    for (const Seat& seat : places.seats()) {
      if (loads[seat.kind] != nullptr) least = std::min(least, loads[seat.kind]->compute(layer, layer + 1));
    }
    const double parameters = problem.layers[layer].parameters - problem.layers[layer].tied;
    compute_[layer + 1] = compute_[layer] + least;
    parameters_[layer + 1] = parameters_[layer] + parameters;
    slowest = std::max(slowest, least);
    largest = std::max(largest, parameters);
  }
  possible_ = stages_ >= exactly.value_or(1) && compute_.back() < kUnlimited;
  if (!possible_) return;

  pace_ = std::max(slowest, compute_.back() / stages_);
  StageLoad part;
  part.parameters = std::max(largest, parameters_.back() / stages_);
  forward_ = backward_ = tail_ = kUnlimited;
  for (const Seat& seat : places.seats()) {
    if (loads[seat.kind] == nullptr) continue;
    const StageLoad all = loads[seat.kind]->of(0, layers);
    const LayerCost& most = loads[seat.kind]->slowest();
    forward_ = std::min(forward_, std::max(all.forward / stages_, most.forward));
    backward_ = std::min(backward_, std::max(all.backward / stages_, most.backward));
    const StageTiming timing = timing_of(problem, setting, seat, part, false);
    tail_ = std::min(tail_, timing.reduce + timing.step);
  }
  for (double* bound : {&pace_, &forward_, &backward_, &tail_}) *bound *= 1 - kSame;
}

double Bounds::update() const {
  const double m = setting_.microbatches;
  switch (setting_.schedule) {
    case Kind::TwoBW:
      return m * pace_;
    case Kind::Flush:
    case Kind::GPipe:
      return compute() + (m - 1) * pace_;
    default:
      return m * compute();
  }
}

double Bounds::throughput() const {
  if (!possible_) return 0;
  return 1.0 * setting_.microbatches * setting_.microbatch * setting_.replicas / update();
}

}  // namespace twobw::planner
