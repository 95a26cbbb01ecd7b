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

// "cuda:0" is a whole GPU, "cuda:0/4" four slices of it. Throws InputError for another form.
std::vector<GpuSlice> parse_gpu(const std::string& text);

// "cuda:0", or "cuda:0/4 slice 2".
std::string describe(const GpuSlice& slice);

}  // namespace twobw
