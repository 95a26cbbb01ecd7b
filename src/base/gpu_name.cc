#include "base/gpu_name.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

#include "base/error.h"

namespace twobw {

namespace {
constexpr std::string_view kPrefix = "cuda:";
}

bool names_gpu(const std::string& text) {
  return text.starts_with(kPrefix);
}

std::vector<GpuSlice> parse_gpu(const std::string& text) {
  constexpr int kMost = 64;
  GpuSlice name;
  const char* const end = text.data() + text.size();
  bool good = names_gpu(text);
  if (good) {
    const auto [stop, error] = std::from_chars(text.data() + kPrefix.size(), end, name.gpu);
    good = error == std::errc() && name.gpu >= 0;
    if (good && stop != end) {
      const auto [last, second] = std::from_chars(stop + 1, end, name.slices);
      good = *stop == '/' && second == std::errc() && last == end && name.slices >= 1 && name.slices <= kMost;
    }
  }
  if (!good) fail_input("devices has '{}'; a GPU is cuda:0, or cuda:0/4 for four slices of it", text);
  std::vector<GpuSlice> slices;
  for (name.slice = 0; name.slice < name.slices; ++name.slice) slices.push_back(name);
  return slices;
}

std::string describe(const GpuSlice& slice) {
  if (slice.slices == 1) return fmt::format("cuda:{}", slice.gpu);
  return fmt::format("cuda:{}/{} slice {}", slice.gpu, slice.slices, slice.slice);
}

}  // namespace twobw
