// Proves the lists of all stages of one spec, taken together, and with those of the other replicas. Nothing
// here is shared with the code that makes the lists but the sizes of the buffers (spec.h): the rules are
// written down a second time, from the design.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/schedule/schedule_rule.h"
#include "core/schedule/spec.h"

namespace twobw::schedule {

enum class Property {
  Shape,            // the numbers in every instruction belong to this run; no other check runs without it
  Progress,         // no deadlock
  Dataflow,         // within a stage, what an instruction needs comes before it
  Once,             // each microbatch forward and backward once, ascending
  VersionRule,      // on the weights that the design's table names, forward and backward alike
  Predictions,      // each P(j) once, from W(j-1) and the gradients of batch j-1 that the rule names
  Agreement,        // on the same weights at all stages
  InFlight,         // never more than in_flight_bound
  Slots,            // a forward finds its activation slot free
  WeightBuffers,    // no version is overwritten while it is needed; never more than versions_kept
  GradientBuffers,  // no batch accumulates into a buffer whose update is outstanding
  Updates,          // each update once, in order, to the next version
  Evaluations,      // of the newest weights, when due, in one order
  Saves,            // of every cut that is due, once, with all that the batch after it reads
  Links,            // received in the order sent, so that an ordered transport will do
};

struct Finding {
  Property property = Property::Shape;
  std::string problem;  // the first one found, with its stage; empty: the property holds

  bool ok() const { return problem.empty(); }
};

// The most that a stage held at any time.
struct Peaks {
  int in_flight = 0;
  int versions = 0;
  int gradient_buffers = 0;
};

struct Report {
  std::vector<Finding> findings;  // in the order of Property
  std::vector<Peaks> peaks;       // by stage
  // A bad Shape is the only finding, without peaks. Agreement is missing for stash.

  bool ok() const;
  // Whether the property was found to hold.
  bool holds(Property property) const;
  // The first problem, empty if there is none.
  std::string problem() const;
};

// One word, and one sentence, for reports.
std::string_view name(Property property);
std::string_view sentence(Property property);

// Throws InputError when the spec is not valid.
Report check(const Spec& spec);
// The same for lists made elsewhere, broken ones included.
Report check(const Spec& spec, const Lists& lists);

}  // namespace twobw::schedule
