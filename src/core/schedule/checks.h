// The checker's checks, one per property. Each returns the first problem, or an empty text. All except
// check_shape require a good shape: numbers in range, so that they can be indices.
#pragma once

#include <span>
#include <string>

#include "core/schedule/checker.h"

namespace twobw::schedule {

using List = std::span<const Instruction>;

std::string check_shape(const Spec& spec, const Lists& lists);
std::string check_progress(const Spec& spec, const Lists& lists);
std::string check_agreement(const Spec& spec, const Lists& lists);
std::string check_links(const Spec& spec, const Lists& lists);

// Checks of one stage; the caller adds its number to the problem.
std::string check_dataflow(const Spec& spec, int stage, List list);
std::string check_once(const Spec& spec, int stage, List list);
std::string check_version_rule(const Spec& spec, int stage, List list);
std::string check_predictions(const Spec& spec, int stage, List list);
std::string check_in_flight(const Spec& spec, int stage, List list);
std::string check_slots(const Spec& spec, int stage, List list);
std::string check_weight_buffers(const Spec& spec, int stage, List list);
std::string check_gradient_buffers(const Spec& spec, int stage, List list);
std::string check_updates(const Spec& spec, int stage, List list);
std::string check_evaluations(const Spec& spec, int stage, List list);
std::string check_saves(const Spec& spec, int stage, List list);

int peak_in_flight(List list);
int peak_versions(const Spec& spec, List list);
int peak_gradient_buffers(const Spec& spec, List list);

}  // namespace twobw::schedule
