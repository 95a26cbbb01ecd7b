// Proves the lists of all stages of one spec, together with those of the other replicas. The checker shares
// only the sizes of the buffers (spec.h) with the code that makes the lists; it states the rules again, from
// the design.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/schedule/schedule_rule.h"
#include "core/schedule/spec.h"

namespace twobw::schedule {

enum class Property {
  Shape,            // the numbers in every instruction belong to this run; required by all other checks
  Progress,         // no deadlock
  Dataflow,         // within a stage, every input of an instruction comes before it
  Once,             // each microbatch forward and backward once, ascending
  VersionRule,      // forward and backward on the weights of the design's table
  Predictions,      // each P(j) once, from W(j-1) and the first k_r gradients of batch j-1
  Agreement,        // the same weights at all stages
  InFlight,         // at most in_flight_bound microbatches
  Slots,            // a forward finds its activation slot free
  WeightBuffers,    // no version is overwritten while it is needed; at most versions_kept
  GradientBuffers,  // no batch accumulates into a buffer whose update is outstanding
  Updates,          // each update once, in order, to the next version
  Evaluations,      // of the newest weights, when due, in one order
  Saves,            // every cut that is due, once, with all weights that the batch after it reads
  Links,            // received in the order sent, as an ordered transport requires
};

struct Finding {
  Property property = Property::Shape;
  std::string problem;  // the first one, with its stage; empty: the property holds

  bool ok() const { return problem.empty(); }
};

// Maxima of one stage over the run.
struct Peaks {
  int in_flight = 0;
  int versions = 0;
  int gradient_buffers = 0;
};

struct Report {
  std::vector<Finding> findings;  // in the order of Property; a bad Shape alone; for stash without Agreement
  std::vector<Peaks> peaks;       // by stage; empty if Shape is bad

  bool ok() const;
  // True if the property was checked and holds.
  bool holds(Property property) const;
  // The first problem; empty if all properties hold.
  std::string problem() const;
};

// A property's name and its sentence in reports.
std::string_view name(Property property);
std::string_view sentence(Property property);

// Throws InputError if the spec is not valid.
Report check(const Spec& spec);
// Checks any lists, including broken ones.
Report check(const Spec& spec, const Lists& lists);

}  // namespace twobw::schedule
