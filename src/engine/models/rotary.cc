#include "engine/models/rotary.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <vector>

#include "engine/models/kernels.h"
#include "engine/models/ops.h"
#include "engine/models/ops_cuda.h"
#include "planning/architecture/llama.h"

namespace twobw::models {
namespace {

constexpr std::int64_t kUsualPlaces = 1024;

// In double: far into a sequence the rounding of an angle to float would be seen.
at::Tensor make_angles(const std::vector<double>& frequencies, std::int64_t places) {
  const std::int64_t half = std::ssize(frequencies);
  at::Tensor table = at::empty({places, 2 * half}, at::kFloat);
  float* to = table.mutable_data_ptr<float>();
  for (std::int64_t place = 0; place < places; ++place, to += 2 * half) {
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(place) * frequencies[i];
      to[i] = static_cast<float>(std::cos(angle));
      to[half + i] = static_cast<float>(std::sin(angle));
    }
  }
  return table;
}

}  // namespace

// Builds the table of a usual context before stages count their memory.
RotaryTable::RotaryTable(const ModelConfig& config) : config_(config) {
  angles(std::min<std::int64_t>(config.context, kUsualPlaces), at::kCPU);
}

std::shared_ptr<RotaryTable> RotaryTable::of(const ModelConfig& config) {
  using Key = std::pair<std::vector<double>, int>;
  static std::mutex mutex;
  static std::map<Key, std::weak_ptr<RotaryTable>> known;
  std::lock_guard lock(mutex);
  auto& entry = known[{architecture::rotary_frequencies(config, config.context), config.context}];
  auto table = entry.lock();
  if (!table) entry = table = std::make_shared<RotaryTable>(config);
  return table;
}

// On CPUs a table grows on demand, by doubling; on a GPU its size is fixed, because graphs hold its address.
std::int64_t RotaryTable::places_for(std::int64_t length, at::Device device) const {
  const std::int64_t context = config_.context;
  if (!device.is_cpu() || length >= context) return std::max(length, context);
  const auto doubled = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(length)));
  return std::min(std::max(doubled, kUsualPlaces), context);
}

at::Tensor RotaryTable::angles(std::int64_t length, at::Device device) {
  const bool own = architecture::depend_on_length(config_, length);
  std::lock_guard lock(mutex_);
  at::Tensor& table = tables_[{device.is_cpu() ? -1 : device.index(), own ? length : 0}];
  if (!table.defined() || table.size(0) < length) {
    const std::int64_t places = own ? length : places_for(length, device);
    table = make_angles(architecture::rotary_frequencies(config_, length), places).to(device);
  }
  return table;
}

namespace ops {
namespace {

Tensor rotated(const Tensor& qkv, const Heads& heads, const Tensor& angles, float sign) {
  const Tensor input = widened(qkv);
  const std::int64_t width = input.size(2), length = input.size(1), rows = input.size(0) * length;
  Tensor out = at::empty_like(input);
  const float *from = input.const_data_ptr<float>(), *table = angles.const_data_ptr<float>();
  float* to = out.mutable_data_ptr<float>();
  at::parallel_for(0, rows, 1 + kGrain / width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      models::rotate_row(from + row * width, table + row % length * heads.size, to + row * width, heads.all(),
                         heads.queries + heads.keys, heads.size, sign);
    }
  });
  return out.to(qkv.scalar_type());
}

struct RotateFunction : torch::autograd::Function<RotateFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& qkv, const Tensor& angles,
                        const std::optional<Tensor>& positions, std::int64_t queries, std::int64_t keys) {
    at::AutoDispatchBelowADInplaceOrView below;
    const Tensor given = positions.value_or(Tensor());
    context->save_for_backward({angles, given});
    context->saved_data["queries"] = queries;
    context->saved_data["keys"] = keys;
    return turned(context, qkv, angles, given, 1);
  }

  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const auto saved = context->get_saved_variables();
    return {turned(context, grads[0], saved[0], saved[1], -1), Tensor(), Tensor(), Tensor(), Tensor()};
  }

  // With positions, as one sequence that has angles for each of its tokens.
  static Tensor turned(AutogradContext* context, const Tensor& x, const Tensor& angles,
                       const Tensor& positions, int sign) {
    const Heads heads{.queries = static_cast<int>(context->saved_data["queries"].toInt()),
                      .keys = static_cast<int>(context->saved_data["keys"].toInt()),
                      .size = static_cast<int>(angles.size(1))};
    if (!positions.defined()) return turned(x, heads, angles, sign);
    const Tensor tokens = x.contiguous().view({1, -1, x.size(2)});
    return turned(tokens, heads, angles.index_select(0, positions.reshape(-1)), sign).view(x.sizes());
  }

  static Tensor turned(const Tensor& x, const Heads& heads, const Tensor& angles, int sign) {
    return x.is_cuda() ? cuda::rotated(x, heads, angles, sign) : rotated(x, heads, angles, sign);
  }
};

}  // namespace

Tensor rotate(const Tensor& qkv, const Heads& heads, const Tensor& angles, const Tensor& positions) {
  return RotateFunction::apply(qkv, angles, given(positions), heads.queries, heads.keys);
}

}  // namespace ops
}  // namespace twobw::models
