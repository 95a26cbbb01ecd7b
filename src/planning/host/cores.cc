#include "planning/host/cores.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "core/base/error.h"

namespace twobw::device {

std::vector<int> available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &set)) cores.push_back(core);
    }
  }
  if (cores.empty()) cores.push_back(0);
  return cores;
}

namespace {

[[noreturn]] void refuse(const std::string& text) {
  fail_input(
      "devices has '{}'; allowed: cpu:N, cpu:N-M or cpu:N,M,... with distinct cores this process may use",
      text);
}

int parse_core(const std::string& whole, const std::string& text) {
  if (text.empty() || text.size() > 4 || !std::all_of(text.begin(), text.end(), ::isdigit)) refuse(whole);
  return std::stoi(text);
}

}  // namespace

CoreSet parse_cores(const std::string& text) {
  return parse_cores(text, available_cores());
}

CoreSet parse_cores(const std::string& text, const std::vector<int>& available) {
  if (!text.starts_with("cpu:")) refuse(text);
  CoreSet set;
  std::size_t begin = 4;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    const std::size_t dash = part.find('-');
    const int first = parse_core(text, part.substr(0, dash));
    const int last = dash == std::string::npos ? first : parse_core(text, part.substr(dash + 1));
    if (last < first) refuse(text);
    for (int core = first; core <= last; ++core) {
      if (std::find(available.begin(), available.end(), core) == available.end()) refuse(text);
      set.cores.push_back(core);
    }
    begin = end + 1;
  }
  const std::set<int> distinct(set.cores.begin(), set.cores.end());
  if (distinct.size() != set.cores.size()) refuse(text);
  if (set.cores.empty()) refuse(text);
  return set;
}

std::vector<CoreSet> deal_cores(int count) {
  return deal_cores(count, available_cores());
}

std::vector<CoreSet> deal_cores(int count, const std::vector<int>& cores) {
  const int total = static_cast<int>(cores.size());
  std::vector<CoreSet> sets(count);
  for (int worker = 0; worker < count; ++worker) {
    if (total < count) {
      sets[worker].cores = {cores[worker % total]};
    } else {
      const int each = total / count;
      sets[worker].cores.assign(cores.begin() + worker * each, cores.begin() + (worker + 1) * each);
    }
  }
  return sets;
}

std::string describe(const CoreSet& set) {
  std::string text = "cpu:";
  for (std::size_t i = 0; i < set.cores.size(); ++i) text += (i ? "," : "") + std::to_string(set.cores[i]);
  return text;
}

std::vector<std::string> core_names() {
  std::vector<std::string> names;
  for (int core : available_cores()) names.push_back(describe({.cores = {core}}));
  return names;
}

void unbind_thread(const std::string& name) {
  pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
  cpu_set_t cores;
  CPU_ZERO(&cores);
  // The main thread's id is the process id.
  if (sched_getaffinity(getpid(), sizeof cores, &cores) == 0)
    pthread_setaffinity_np(pthread_self(), sizeof cores, &cores);
}

void pin_thread(const std::string& name, const CoreSet& set) {
  pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
  if (set.cores.empty()) return;
  cpu_set_t cores;
  CPU_ZERO(&cores);
  for (int core : set.cores) CPU_SET(core, &cores);
  pthread_setaffinity_np(pthread_self(), sizeof cores, &cores);
}

}  // namespace twobw::device
