#include "core/base/gpu_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "core/base/error.h"
#include "core/base/json.h"

namespace twobw {

namespace {
constexpr std::string_view kPrefix = "cuda:";

// Reads the number at the start of `text`; `rest` is the text after it.
bool take_number(std::string_view text, std::string_view& rest, int& number) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  rest = {stop, static_cast<std::size_t>(end - stop)};
  return error == std::errc() && number >= 0;
}

}  // namespace

bool names_gpu(const std::string& text) {
  return text.starts_with(kPrefix);
}

std::vector<GpuSlice> parse_gpu(const std::string& text) {
  constexpr int kMost = 64;
  GpuSlice name;
  std::optional<int> single;
  std::string_view rest = text;
  bool good = names_gpu(text) && take_number(rest.substr(kPrefix.size()), rest, name.gpu);
  if (good && rest.starts_with('/'))
    good = take_number(rest.substr(1), rest, name.slices) && name.slices >= 1 && name.slices <= kMost;
  if (good && rest.starts_with('.'))
    good = take_number(rest.substr(1), rest, single.emplace()) && *single < name.slices;
  if (!good || !rest.empty()) {
    fail_input(
        "devices has '{}'; a GPU is cuda:0, cuda:0/4 four slices of it, cuda:0/4.2 one of these, counted "
        "from 0",
        shown_name(text));
  }
  if (single) {
    name.slice = *single;
    return {name};
  }
  std::vector<GpuSlice> slices;
  for (name.slice = 0; name.slice < name.slices; ++name.slice) slices.push_back(name);
  return slices;
}

std::string describe(const GpuSlice& slice) {
  if (slice.slices == 1) return fmt::format("cuda:{}", slice.gpu);
  return fmt::format("cuda:{}/{}.{}", slice.gpu, slice.slices, slice.slice);
}

std::vector<GpuSlice> deal_gpus(int gpus, int devices) {
  TWOBW_ASSERT(gpus > 0 && devices > 0, "{} devices of {} GPUs", devices, gpus);
  int used = std::min(gpus, devices);
  while (devices % used != 0) --used;
  const int each = devices / used;
  std::vector<GpuSlice> dealt;
  for (int i = 0; i < devices; ++i) dealt.push_back({.gpu = i / each, .slice = i % each, .slices = each});
  return dealt;
}

std::vector<std::string> single_devices(const std::vector<std::string>& names) {
  std::vector<std::string> single;
  for (const std::string& name : names) {
    if (!names_gpu(name)) {
      single.push_back(name);
      continue;
    }
    for (const GpuSlice& slice : parse_gpu(name)) single.push_back(describe(slice));
  }
  return single;
}

}  // namespace twobw
