// Plans of the labels that a run of dynamic programming ends with.
#include <algorithm>

#include "planning/planner/costs/time_model.h"
#include "planning/planner/search/frontier.h"

namespace twobw::planner {

using schedule::Kind;

Estimate Frontier::estimate(int label) const {
  Plan plan{.shape = setting_.shape};
  for (int i = label; labels_[i].parent >= 0; i = labels_[i].parent) {
    StagePlan stage{.first_layer = labels_[i].layer,
                    .last_layer = labels_[labels_[i].parent].layer,
                    .recompute = labels_[i].recompute};
    places_.site(labels_[i].place, stage);
    plan.stages.push_back(std::move(stage));
  }
  plan.shape.extra = spec_of(setting_, static_cast<int>(plan.stages.size())).shape.extra;
  return evaluate(problem_, std::move(plan), sums_);
}

Frontier::Seconds Frontier::seconds(int end) const {
  std::vector<StageTiming> timings;
  for (int i = end; labels_[i].parent >= 0; i = labels_[i].parent) {
    const Label &label = labels_[i], &rest = labels_[label.parent];
    const Place &here = places_.all()[label.place], &next = places_.all()[rest.place];
    const LayerSums& sums = *sums_[places_.sites()[here.site].kind];
    const StageLoad load = sums.of(label.layer, rest.layer);
    const bool tie = load.tied > 0 && label.layer <= first_tied_;
    StageTiming timing = costs_.timing(here.site, load, label.recompute, tie, here.groups == 1);
    if (labels_[label.parent].parent >= 0) {
      const auto advance = std::ranges::find(next.next, label.place, &Advance::place);
      const Transfer send =
          costs_.send(here.site, next.site, advance->same_group, sums.output(rest.layer - 1));
      timing.send = send.seconds;
      timing.busy = send.busy;
      timing.leaves = !advance->same_group;
      timing.shares = costs_.shares(here.site, timing.leaves);
    } else if (!timings.empty() && timings.front().tie_leaves) {
      timing.tie_leaves = true;
      timing.tie_busy = costs_.tie_busy(here.site);
      timing.tie_shares = costs_.shares(here.site, true);
    }
    timings.push_back(timing);
  }
  Setting setting = setting_;
  // As late as can be: evaluate() finds out what does.
  if (setting.shape.predicts() && !problem_.fixed.step_slack)
    setting.shape.step_slack = std::max(1, setting.shape.microbatches);
  const auto with = [&](Sharing sharing) { return update_seconds(setting, timings, sharing); };
  const double none = with(Sharing::None);
  if (!problem_.links) return {.none = none, .hoped = none, .all = none};
  return {.none = none, .hoped = with(Sharing::Least), .all = with(Sharing::All)};
}

double Frontier::promise(int end) const {
  const Label& label = labels_[end];
  if (goal_ == Goal::Memory) return label.slack;
  const double others = setting_.shape.microbatches - 1;
  if (stalls(setting_)) return label.total + others * std::max(bounds_.pace(), limits_.pace + label.slack);
  switch (setting_.shape.schedule) {
    case Kind::GPipe:
      return label.total + others * (label.forward + label.backward);
    case Kind::TwoBW:
      return setting_.shape.microbatches * (limits_.pace + label.slack);
    default:
      return label.total;
  }
}

double Frontier::least_over() const {
  return costs_.least_state() * bounds_.parameters_before().back() / bounds_.stages() - capacity_;
}

// Nearly as many parameters on every stage, with recomputation if that takes less memory.
std::optional<Estimate> Frontier::even_split() {
  const int stages = bounds_.stages();
  labels_.assign(1, {.layer = layers_});
  for (int place = 0, after = 0; after < stages; ++after) {
    const Advance* best = nullptr;
    for (const Advance& advance : places_.all()[place].next) {
      const Place& front = places_.all()[advance.place];
      if (sums_[places_.sites()[front.site].kind] == nullptr) continue;
      if (best == nullptr || front.reach > places_.all()[best->place].reach) best = &advance;
    }
    if (best == nullptr) return std::nullopt;
    place = best->place;
    const int before = stages - after - 1;
    const double parameters = bounds_.parameters_before().back() * before / stages;
    const int even = before == 0 ? 0 : std::clamp(first_with(parameters), before, labels_.back().layer - 1);
    const int first = problem_.fixed.first_layer(before).value_or(even);
    const int site = places_.all()[place].site;
    const StageLoad load = sums_[places_.sites()[site].kind]->of(first, labels_.back().layer);
    const bool recompute = problem_.fixed.recomputes(before).value_or(
        costs_.over(site, after, first == 0, load, true) < costs_.over(site, after, first == 0, load, false));
    labels_.push_back({.parent = after, .place = place, .layer = first, .recompute = recompute});
  }
  return estimate(stages);
}

}  // namespace twobw::planner
