// A CPU device: a set of cores, to which a worker binds itself once before it computes.
#pragma once

#include <string>

#include "planning/host/cores.h"

namespace twobw::device {

// Names the calling thread and binds it and its intra-op threads, one for each core, to the cores.
void bind_thread(const std::string& name, const CoreSet& set);

// Process-wide settings, to be made before the first tensor: see cpu.cc.
void initialize();

}  // namespace twobw::device
