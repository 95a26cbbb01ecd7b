#pragma once

#include <string>

namespace twobw::device {

// This machine: processor, cores, memory, and how fast they move bytes. No LibTorch.
std::string processor_name();  // empty if unknown
double system_memory();        // bytes, of the machine or its container

struct Machine {
  std::string processor;
  int cores = 1;              // available to this process
  double memory = 0;          // bytes
  double copy_bandwidth = 0;  // bytes per second and core while all cores copy
  double handover = 0;        // seconds to wake another thread

  static void fields(auto& self, auto&& visit) {
    visit(self.processor, self.cores, self.memory, self.copy_bandwidth, self.handover);
  }
};

// Takes about 0.2 s.
Machine measure_machine();

// Free bytes, within the container's limit.
double available_memory();

}  // namespace twobw::device
