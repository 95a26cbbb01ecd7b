// Bytes that tensors take on the calling thread's device.
#pragma once

#include <memory>

#include "engine/device/device.h"
#include "engine/device/memory.h"

namespace twobw::device {

class Meter {
 public:
  virtual ~Meter() = default;
  virtual double live() const = 0;
  virtual double peak() const = 0;  // since the last reset_peak()
  virtual void reset_peak() = 0;
};

// Of the pool on a CPU; on a GPU of all that this process has there, so while nothing else allocates.
std::unique_ptr<Meter> make_meter(const Device& device, MemoryPool& pool);

// Bytes that could still be had, and that the device has in all: a slice its share of the GPU.
double free_memory(const Device& device);
double total_memory(const Device& device);

// "cpu: 2 cores of ...", "cuda: 32 of 132 multiprocessors of NVIDIA H200".
std::string describe_hardware(const Device& device);

}  // namespace twobw::device
