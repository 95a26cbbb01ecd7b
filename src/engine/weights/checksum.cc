#include "engine/weights/checksum.h"

#include <bit>

#include "core/base/random.h"

namespace twobw::weights {

std::vector<std::uint64_t> layer_checksums(const Layout& layout, const at::Tensor& flat) {
  const float* values = flat.const_data_ptr<float>();
  std::vector<std::uint64_t> sums;
  for (int layer = layout.first_layer(); layer < layout.last_layer(); ++layer) {
    const auto [begin, end] = layout.range(layer);
    std::uint64_t sum = 0;
    for (int index = begin; index < end; ++index) {
      const Parameter& parameter = layout.parameters()[index];
      for (std::int64_t i = 0; i < parameter.count; ++i) {
        sum = scramble(sum ^ std::bit_cast<std::uint32_t>(values[parameter.offset + i]));
      }
    }
    sums.push_back(sum);
  }
  return sums;
}

}  // namespace twobw::weights
