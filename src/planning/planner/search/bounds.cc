#include "planning/planner/search/bounds.h"

#include <algorithm>
#include <cmath>

namespace twobw::planner {
namespace {

using schedule::Kind;

int most_stages(const Problem& problem, const Setting& setting, const Places& places,
                std::optional<int> exactly) {
  int most = std::min(static_cast<int>(problem.layers.size()), places.all().front().reach);
  if (exactly) most = std::min(most, *exactly);
  const auto allowed = [&](const schedule::Spec& spec) {
    return schedule::smallest_microbatches(spec) <= setting.shape.microbatches &&
           (!problem.predict_well || schedule::predicts_well(spec));
  };
  while (most > 0 && !allowed(spec_of(setting, most))) --most;
  return most;
}

}  // namespace

// Some stage has the largest layer, and some stage at least its part of the whole.
Bounds::Bounds(const Problem& problem, const Setting& setting, const Places& places,
               const LayerSumsByKind& sums, std::optional<int> exactly)
    : setting_(setting), stages_(most_stages(problem, setting, places, exactly)) {
  const int layers = static_cast<int>(problem.layers.size());
  compute_.assign(layers + 1, 0);
  way_.assign(layers + 1, 0);
  parameters_.assign(layers + 1, 0);
  double largest = 0;
  for (int layer = 0; layer < layers; ++layer) {
    double least = kUnlimited, least_back = kUnlimited;
    for (const Site& site : places.sites()) {
      if (sums[site.kind] == nullptr) continue;
      least = std::min(least, sums[site.kind]->compute(layer, layer + 1));
      least_back = std::min(least_back, sums[site.kind]->backward(layer, layer + 1));
    }
    const double parameters = problem.layers[layer].parameters - problem.layers[layer].tied;
    compute_[layer + 1] = compute_[layer] + least;
    way_[layer + 1] = way_[layer] + (setting.one_gradient() ? least_back : least);
    parameters_[layer + 1] = parameters_[layer] + parameters;
    slowest_ = std::max(slowest_, least);
    largest = std::max(largest, parameters);
  }
  possible_ = stages_ >= exactly.value_or(1) && compute_.back() < kUnlimited;
  if (!possible_) return;

  StageLoad part;
  part.parameters = std::max(largest, parameters_.back() / stages_);
  StageLoad whole;
  whole.parameters = parameters_.back();
  forward_ = backward_ = tail_ = steps_ = sums_ = crossing_ = kUnlimited;
  for (const Site& site : places.sites()) {
    if (sums[site.kind] == nullptr) continue;
    const StageLoad all = sums[site.kind]->of(0, layers);
    const LayerCost& most = sums[site.kind]->slowest();
    forward_ = std::min(forward_, std::max(all.forward / stages_, most.forward));
    backward_ = std::min(backward_, std::max(all.backward / stages_, most.backward));
    const StageTiming timing = timing_of(problem, setting, site, part, false);
    const int sums_an_update = setting.shape.predicts() ? 2 : 1;
    tail_ = std::min(tail_, timing.reduce + timing.step);
    steps_ = std::min(steps_, std::max(sums_an_update * timing.reduce, timing.step));
    sums_ = std::min(sums_, sums_an_update * timing_of(problem, setting, site, whole, false).sum);
    for (int layer = 0; layer + 1 < layers; ++layer) {
      const double output = sums[site.kind]->output(layer);
      crossing_ = std::min(crossing_, transfer(problem.cluster.network, site.per_node, output).busy);
    }
  }
  const bool shared = problem.links && problem.cluster.network.shared && layers > 1;
  if (!shared) sums_ = crossing_ = 0;
  for (double* bound : {&forward_, &backward_, &tail_, &steps_, &sums_, &crossing_}) *bound *= 1 - kSame;
  for (const Place& place : places.all()) {
    if (place.groups == 0) continue;
    if (std::ssize(most_stages_) < place.groups) most_stages_.resize(place.groups);
    int& most = most_stages_[place.groups - 1];
    most = std::max(most, std::min(place.stages, stages_));
  }
  if (!shared) most_stages_ = {stages_};
  pace_ = pace(stages_);
}

// Bound for plans on `groups` groups of nodes: of their computation and of the network.
double Bounds::pace(int stages, int groups) const {
  const double computing = std::max(slowest_, compute() / std::min(stages, most_stages_[groups - 1]));
  return std::max(computing * (1 - kSame), std::min(groups - 1, 2) * crossing_);
}

double Bounds::pace(int stages) const {
  double least = kUnlimited;
  for (int groups = 1; groups <= std::ssize(most_stages_); ++groups)
    least = std::min(least, pace(stages, groups));
  return least;
}

// 2BW. All groups together send every microbatch over the boundaries between them, there and back.
double Bounds::update_of_links(int stages) const {
  const double m = setting_.shape.microbatches;
  double least = kUnlimited;
  for (int groups = 1; groups <= std::ssize(most_stages_); ++groups) {
    const double sent = (2.0 * (groups - 1) * m * crossing_ + sums_) / groups;
    least = std::min(least, std::max(m * pace(stages, groups), sent));
  }
  return least;
}

int Bounds::useful_stages() const {
  return slowest_ > 0 ? std::min(stages_, static_cast<int>(std::ceil(compute() / slowest_))) : stages_;
}

double Bounds::update(int stages) const {
  const double m = setting_.shape.microbatches;
  const double stalled = way() + (m - 1) * pace(stages) + tail_;
  switch (setting_.shape.schedule) {
    case Kind::TwoBW:
      return std::max({update_of_links(stages), steps_, setting_.one_gradient() ? stalled : 0});
    case Kind::Flush:
      return stalled;
    case Kind::GPipe:
      return compute() + (m - 1) * std::max(pace(stages), forward_ + backward_) + tail_;
    default:
      return m * compute() + tail_;
  }
}

double Bounds::throughput() const {
  if (!possible_) return 0;
  return 1.0 * setting_.shape.microbatches * setting_.shape.microbatch * setting_.shape.replicas / update();
}

}  // namespace twobw::planner
