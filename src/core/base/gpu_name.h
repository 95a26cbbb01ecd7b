// Names of GPUs in configurations.
#pragma once

#include <string>
#include <vector>

namespace twobw {

// A GPU, or one of equal slices of its multiprocessors.
struct GpuSlice {
  int gpu = 0;
  int slice = 0;
  int slices = 1;
};

bool names_gpu(const std::string& text);  // begins with "cuda:"

// "cuda:0" is a whole GPU, "cuda:0/4" four slices of it, "cuda:0/4.2" the third of them. Throws InputError
// for any other form.
std::vector<GpuSlice> parse_gpu(const std::string& text);

// "cuda:0", or "cuda:0/4.2".
std::string describe(const GpuSlice& slice);

// Assigns `gpus` GPUs to `devices`: one each if there are enough, else equally many slices of as many GPUs as
// possible.
std::vector<GpuSlice> deal_gpus(int gpus, int devices);

// One name per device of a configuration's list: a sliced GPU has several devices.
std::vector<std::string> single_devices(const std::vector<std::string>& names);

}  // namespace twobw
