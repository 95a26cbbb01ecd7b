#include "core/schedule/checker.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/schedule/checks.h"

namespace twobw::schedule {
namespace {

using CheckOfStage = std::string (*)(const Spec&, int stage, List);

template <CheckOfStage kCheck>
std::string every_stage(const Spec& spec, const Lists& lists) {
  for (int stage = 0; stage < spec.shape.stages; ++stage) {
    const std::string problem = kCheck(spec, stage, lists[static_cast<std::size_t>(stage)]);
    if (!problem.empty()) return fmt::format("stage {}: {}", stage, problem);
  }
  return {};
}

struct Entry {
  Property property;
  std::string_view name;
  std::string_view sentence;
  std::string (*check)(const Spec&, const Lists&);
};

constexpr std::array<Entry, 15> entries = {{
    {Property::Shape, "shape", "every instruction names a microbatch, a batch and a version of this run",
     check_shape},
    {Property::Progress, "progress", "no worker waits forever", check_progress},
    {Property::Dataflow, "dataflow", "within a stage every instruction comes after its inputs",
     every_stage<check_dataflow>},
    {Property::Once, "once", "every microbatch runs forward and backward once per stage, in ascending order",
     every_stage<check_once>},
    {Property::VersionRule, "version rule",
     "every microbatch runs forward and backward on the version of the rule",
     every_stage<check_version_rule>},
    {Property::Predictions, "predictions",
     "every batch is predicted once, from the weights and the gradients of the rule",
     every_stage<check_predictions>},
    {Property::Agreement, "agreement", "all stages run a microbatch on the same version", check_agreement},
    {Property::InFlight, "in flight", "no stage holds more microbatches than its bound",
     every_stage<check_in_flight>},
    {Property::Slots, "slots", "every forward finds its activation slot free", every_stage<check_slots>},
    {Property::WeightBuffers, "weight buffers", "no version is overwritten while it is needed",
     every_stage<check_weight_buffers>},
    {Property::GradientBuffers, "gradient buffers",
     "no batch accumulates into a buffer that still waits for its update",
     every_stage<check_gradient_buffers>},
    {Property::Updates, "updates", "every update happens once per stage, in order",
     every_stage<check_updates>},
    {Property::Evaluations, "evaluations", "the newest version is evaluated whenever it is due",
     every_stage<check_evaluations>},
    {Property::Saves, "saves",
     "every cut that is due is saved once, with the weights that the batch after it reads",
     every_stage<check_saves>},
    {Property::Links, "links", "every link is received from in the order it is sent to", check_links},
}};

const Entry& entry_of(Property property) {
  return entries[static_cast<std::size_t>(property)];
}

}  // namespace

bool Report::ok() const {
  return std::ranges::all_of(findings, &Finding::ok);
}

bool Report::holds(Property property) const {
  const auto found = std::ranges::find(findings, property, &Finding::property);
  return found != findings.end() && found->ok();
}

std::string Report::problem() const {
  for (const Finding& finding : findings) {
    if (!finding.ok()) return fmt::format("{}: {}", name(finding.property), finding.problem);
  }
  return {};
}

std::string_view name(Property property) {
  return entry_of(property).name;
}
std::string_view sentence(Property property) {
  return entry_of(property).sentence;
}

Report check(const Spec& spec) {
  return check(spec, all_instructions(spec));
}

Report check(const Spec& spec, const Lists& lists) {
  validate(spec);
  Report report;
  for (const Entry& entry : entries) {
    if (entry.property == Property::Agreement && spec.shape.schedule == Kind::Stash) continue;
    report.findings.push_back({entry.property, entry.check(spec, lists)});
    if (!report.holds(Property::Shape)) return report;
  }
  for (const auto& list : lists) {
    report.peaks.push_back(
        {peak_in_flight(list), peak_versions(spec, list), peak_gradient_buffers(spec, list)});
  }
  return report;
}

}  // namespace twobw::schedule
