#include "planning/host/machine.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <mutex>

#include "core/base/gpu_name.h"
#include "core/base/threads.h"
#include "planning/host/cores.h"
#include "planning/planner/costs/profiled_cluster.h"

namespace twobw::device {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// All cores copy their own memory at the same time, like busy stages.
double measure_copy(const std::vector<int>& cores, double memory) {
  constexpr std::size_t kLargest = 32 << 20;  // exceeds most caches
  constexpr int kRounds = 4;
  const auto bytes = std::min<std::size_t>(
      kLargest, static_cast<std::size_t>(memory / 16 / static_cast<double>(cores.size())));
  std::barrier start(std::ssize(cores));
  std::vector<double> seconds(cores.size());
  const auto copy = [&](int index) {
    pin_thread("copy", {{cores[index]}});
    std::vector<char> from(bytes, 1), to(bytes, 2);
    seconds[index] = std::numeric_limits<double>::infinity();
    for (int round = 0; round < kRounds; ++round) {
      start.arrive_and_wait();
      const auto begin = Clock::now();
      std::memcpy(to.data(), from.data(), bytes);
      asm volatile("" : : "r"(to.data()) : "memory");  // keeps the copy
      seconds[index] = std::min(seconds[index], seconds_since(begin));
      std::swap(from, to);
    }
  };
  run_on_threads(static_cast<int>(cores.size()), copy);
  std::ranges::sort(seconds);
  return static_cast<double>(bytes) / seconds[seconds.size() / 2];
}

// Two threads wake each other alternately.
double measure_handover(const std::vector<int>& cores) {
  constexpr int kTurns = 400;
  std::mutex mutex;
  std::condition_variable changed;
  int turn = 0;
  const auto play = [&](int side) {
    pin_thread("handover", {{side == 0 ? cores.front() : cores.back()}});
    for (int i = side; i < kTurns; i += 2) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return turn == i; });
      ++turn;
      changed.notify_one();
    }
  };
  const auto begin = Clock::now();
  run_on_threads(2, play);
  return seconds_since(begin) / kTurns;
}

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

double free_in_system() {
  std::ifstream file("/proc/meminfo");
  std::string key, unit;
  for (double value = 0; file >> key >> value; std::getline(file, unit)) {
    if (key == "MemAvailable:") return value * 1024;
  }
  return kUnlimited;
}

double free_in_container() {
  double limit = 0, used = 0;
  // The file has "max" without a limit.
  if (!(std::ifstream("/sys/fs/cgroup/memory.max") >> limit)) return kUnlimited;
  if (!(std::ifstream("/sys/fs/cgroup/memory.current") >> used)) return kUnlimited;
  return std::max(0.0, limit - used);
}

}  // namespace

std::string processor_name() {
  // Arm systems report only the core's part number.
  static const std::map<std::string, std::string> designs = {
      {"0xd0c", "Neoverse-N1"}, {"0xd40", "Neoverse-V1"}, {"0xd49", "Neoverse-N2"}, {"0xd4f", "Neoverse-V2"}};
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::string value = line.substr(std::min(line.find(':') + 2, line.size()));
    if (line.starts_with("model name")) return value;
    if (line.starts_with("CPU part"))
      return designs.contains(value) ? designs.at(value) : "Arm part " + value;
  }
  return "";
}

double system_memory() {
  const double physical =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  double limit = std::numeric_limits<double>::infinity();  // stays so for "max"
  if (double value = 0; std::ifstream("/sys/fs/cgroup/memory.max") >> value) limit = value;
  return std::min(physical, limit);
}

Machine measure_machine() {
  const std::vector<int> cores = available_cores();
  Machine machine{.processor = processor_name(), .cores = static_cast<int>(cores.size())};
  machine.memory = system_memory();
  machine.copy_bandwidth = measure_copy(cores, machine.memory);
  machine.handover = measure_handover(cores);
  return machine;
}

double available_memory() {
  return std::min(free_in_system(), free_in_container());
}

}  // namespace twobw::device

namespace twobw::measure {

planner::Cluster cluster_of(const device::Machine& machine) {
  // Rounds to the precision of the measurements.
  constexpr double kMiB = 1 << 20;
  const auto rounded = [](double rate) { return std::max(1.0, std::round(rate / 1e8)) * 1e8; };
  planner::DeviceKind core = planner::known_device("CPU core");
  core.memory = std::floor(machine.memory / machine.cores / kMiB) * kMiB;
  core.memory_bandwidth = rounded(2 * machine.copy_bandwidth);  // a copy reads and writes
  planner::Node node{.name = "this-machine", .islands = {{.kind = 0, .count = machine.cores}}};
  node.link = {.latency = std::round(machine.handover * 1e7) / 1e7,
               .bandwidth = rounded(machine.copy_bandwidth)};
  return {.name = "this machine", .kinds = {core}, .nodes = {node}, .network = planner::kNoLink};
}

planner::Cluster available_cluster(const std::vector<std::string>& devices,
                                   const std::optional<planner::Profile>& profile) {
  if (!devices.empty() && profile)
    return planner::profiled_cluster(*profile, static_cast<int>(single_devices(devices).size()));
  planner::Cluster cluster = cluster_of(device::measure_machine());
  if (profile && profile->links.contains("local")) cluster.nodes[0].link = profile->links.at("local");
  return cluster;
}

std::string describe(const device::Machine& machine) {
  return fmt::format(
      "# Written by `twobw topology`: {} core{}{}.\n"
      "# memory            found: that of the machine, or of its container, in equal shares\n"
      "# tflops            assumed: that of a common server core; `twobw profile` measures real layers\n"
      "# memory_bandwidth  measured: what each core reads and writes while all of them copy\n"
      "# efficiency        assumed, as is the overhead\n"
      "# link              measured: the rate of such a copy, and the time until a waiting thread answers\n"
      "{}",
      machine.cores, machine.cores == 1 ? "" : "s",
      machine.processor.empty() ? "" : " of " + machine.processor, planner::to_yaml(cluster_of(machine)));
}

}  // namespace twobw::measure
