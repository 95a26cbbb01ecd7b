// GPUs as configurations name them.
#pragma once

#include <string>
#include <vector>

namespace twobw {

// A GPU, or one of the slices that its multiprocessors are dealt out to.
struct GpuSlice {
  int gpu = 0;
  int slice = 0;
  int slices = 1;
};

bool names_gpu(const std::string& text);  // begins as one does

// "cuda:0" is a whole GPU, "cuda:0/4" four slices of it, "cuda:0/4.2" the third of them. Throws InputError
// for another form.
std::vector<GpuSlice> parse_gpu(const std::string& text);

// "cuda:0", or "cuda:0/4.2".
std::string describe(const GpuSlice& slice);

// Assigns `gpus` GPUs to `devices`: one each if there are enough, else equally many slices of as many GPUs as
// possible.
std::vector<GpuSlice> deal_gpus(int gpus, int devices);

// One name for every device that a configuration's list names: GPUs in slices have several.
std::vector<std::string> single_devices(const std::vector<std::string>& names);

}  // namespace twobw
