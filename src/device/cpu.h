// A CPU device is a set of cores. A worker binds itself to one, once, before it computes.
#pragma once

#include <string>
#include <vector>

namespace twobw::device {

struct CoreSet {
  std::vector<int> cores;  // empty: wherever the system likes
};

// The cores this process may use.
std::vector<int> available_cores();

// "cpu:0", "cpu:0-3", "cpu:0,2". Throws InputError for another form or a core that is not available.
CoreSet parse_cores(const std::string& text);

// One set for each of `count` workers: the cores dealt out evenly, shared where there are too few.
std::vector<CoreSet> deal_cores(int count);

std::string describe(const CoreSet& set);

// Names the calling thread, binds it (and the intra-op threads it will start) to the cores, and gives
// it as many intra-op threads as there are cores.
void bind_thread(const std::string& name, const CoreSet& set);

// Process-wide choices that must be made before the first tensor: see cpu.cc.
void initialize();

}  // namespace twobw::device
