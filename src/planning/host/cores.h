// The cores of this machine, in sets. Needs no LibTorch.
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
// The same where these are available.
CoreSet parse_cores(const std::string& text, const std::vector<int>& available);

// One set for each of `count` workers: the cores dealt out evenly, shared where there are too few.
std::vector<CoreSet> deal_cores(int count);
std::vector<CoreSet> deal_cores(int count, const std::vector<int>& cores);

std::string describe(const CoreSet& set);

// Each available core by itself, as a configuration names it.
std::vector<std::string> core_names();

// Names the calling thread and binds it to the cores.
void pin_thread(const std::string& name, const CoreSet& set);

// Names the calling thread and lets it run on every core that the main thread may, wherever the thread is
// bound that started it.
void unbind_thread(const std::string& name);

}  // namespace twobw::device
