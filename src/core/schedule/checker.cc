#include "core/schedule/checker.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/schedule/checks.h"

namespace twobw::schedule {
namespace {

struct Entry {
  Property property;
  std::string_view name;
  std::string_view sentence;
  std::string (*together)(const Spec&, const Lists&) = nullptr;  // one of the two
  std::string (*by_stage)(const Spec&, int stage, List) = nullptr;
};

constexpr std::array<Entry, 15> entries = {{
    {Property::Shape, "shape", "every instruction names a microbatch, a batch and a version of this run",
     check_shape, nullptr},
    {Property::Progress, "progress", "no worker waits for ever", check_progress, nullptr},
    {Property::Dataflow, "dataflow", "within a stage everything comes after what it needs", nullptr,
     check_dataflow},
    {Property::Once, "once", "every microbatch runs forward and backward once per stage, in ascending order",
     nullptr, check_once},
    {Property::VersionRule, "version rule",
     "every microbatch runs on the version of the rule, forward and backward alike", nullptr,
     check_version_rule},
    {Property::Predictions, "predictions",
     "every batch is predicted once, from the weights and the gradients of the rule", nullptr,
     check_predictions},
    {Property::Agreement, "agreement", "all stages run a microbatch on the same version", check_agreement,
     nullptr},
    {Property::InFlight, "in flight", "no stage holds more microbatches than its bound", nullptr,
     check_in_flight},
    {Property::Slots, "slots", "every forward finds its activation slot free", nullptr, check_slots},
    {Property::WeightBuffers, "weight buffers", "no version is overwritten while it is needed", nullptr,
     check_weight_buffers},
    {Property::GradientBuffers, "gradient buffers",
     "no batch accumulates into a buffer that still waits for its update", nullptr, check_gradient_buffers},
    {Property::Updates, "updates", "every update happens once per stage, in order", nullptr, check_updates},
    {Property::Evaluations, "evaluations", "the newest version is evaluated whenever it is due", nullptr,
     check_evaluations},
    {Property::Saves, "saves", "every cut that is due is saved once, with what the batch after it reads",
     nullptr, check_saves},
    {Property::Links, "links", "every link is received from in the order it is sent to", check_links,
     nullptr},
}};

const Entry& entry_of(Property property) {
  return entries[static_cast<std::size_t>(property)];
}

std::string run(const Entry& entry, const Spec& spec, const Lists& lists) {
  if (entry.together != nullptr) return entry.together(spec, lists);
  for (int stage = 0; stage < spec.shape.stages; ++stage) {
    const std::string problem = entry.by_stage(spec, stage, lists[static_cast<std::size_t>(stage)]);
    if (!problem.empty()) return fmt::format("stage {}: {}", stage, problem);
  }
  return {};
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
    report.findings.push_back({entry.property, run(entry, spec, lists)});
    if (!report.holds(Property::Shape)) return report;
  }
  for (const auto& list : lists) {
    report.peaks.push_back(
        {peak_in_flight(list), peak_versions(spec, list), peak_gradient_buffers(spec, list)});
  }
  return report;
}

}  // namespace twobw::schedule
