// What this machine is: processor, cores, memory, and how fast they move bytes. Needs no LibTorch.
#pragma once

#include <string>
namespace twobw::device {

std::string processor_name();  // as the system names it; empty where it does not
double system_memory();        // bytes, of the machine or of the container this runs in

struct Machine {
  std::string processor;      // its name
  int cores = 1;              // that this process may use
  double memory = 0;          // bytes
  double copy_bandwidth = 0;  // bytes a second that each core copies while all of them do
  double handover = 0;        // seconds from one thread's word to another's answer, one way
};

// Takes about a fifth of a second.
Machine measure_machine();

}  // namespace twobw::device
