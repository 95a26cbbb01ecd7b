// Sets of CPU cores. No LibTorch.
#pragma once

#include <string>
#include <vector>

namespace twobw::device {

struct CoreSet {
  std::vector<int> cores;  // empty: any core
};

// The cores available to this process.
std::vector<int> available_cores();

// Parses "cpu:0", "cpu:0-3" or "cpu:0,2". Throws InputError for other forms and unavailable cores.
CoreSet parse_cores(const std::string& text);
CoreSet parse_cores(const std::string& text, const std::vector<int>& available);

// Equal sets for `count` workers; cores are shared if there are too few.
std::vector<CoreSet> deal_cores(int count);
std::vector<CoreSet> deal_cores(int count, const std::vector<int>& cores);

std::string describe(const CoreSet& set);

// The available cores as single devices of a configuration.
std::vector<std::string> core_names();

// Names the calling thread and binds it to the cores.
void pin_thread(const std::string& name, const CoreSet& set);

// Names the calling thread and lets it run on all cores of the main thread.
void unbind_thread(const std::string& name);

}  // namespace twobw::device
