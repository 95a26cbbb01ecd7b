// One instruction as it was carried out, or as the simulator says it would be. Runtime and simulator
// both give these, so a measured and a modelled timeline are drawn and summed up by the same code.
#pragma once

#include "core/schedule/instruction.h"

namespace twobw::schedule {

struct Event {
  int stage = 0;
  Instruction instruction;
  double begin = 0;  // seconds since the run began
  double end = 0;
  int replica = 0;
};

}  // namespace twobw::schedule
