#include "planning/host/available.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

namespace twobw::device {
namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

double of_the_system() {
  std::ifstream file("/proc/meminfo");
  std::string key, unit;
  for (double value = 0; file >> key >> value; std::getline(file, unit)) {
    if (key == "MemAvailable:") return value * 1024;
  }
  return kUnlimited;
}

double of_the_container() {
  double limit = 0, used = 0;
  // Where there is no limit the file says "max".
  if (!(std::ifstream("/sys/fs/cgroup/memory.max") >> limit)) return kUnlimited;
  if (!(std::ifstream("/sys/fs/cgroup/memory.current") >> used)) return kUnlimited;
  return std::max(0.0, limit - used);
}

}  // namespace

double available_memory() {
  return std::min(of_the_system(), of_the_container());
}

}  // namespace twobw::device
