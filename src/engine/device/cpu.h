// A CPU device is a set of cores. A worker binds itself to one, once, before it computes.
#pragma once

#include <string>

#include "planning/host/cores.h"

namespace twobw::device {

// Names the calling thread, binds it (and the intra-op threads it will start) to the cores, and gives
// it as many intra-op threads as there are cores.
void bind_thread(const std::string& name, const CoreSet& set);

// Process-wide choices that must be made before the first tensor: see cpu.cc.
void initialize();

}  // namespace twobw::device
