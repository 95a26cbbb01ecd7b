#include "engine/weights/layout.h"

#include <bit>
#include <map>

#include "core/base/error.h"
#include "core/base/random.h"

namespace twobw::weights {
namespace {

constexpr std::int64_t kAlignment = 16;  // floats: every parameter starts on a cache line

}  // namespace

std::int64_t Layout::room_of(std::int64_t count) {
  return (count + kAlignment - 1) / kAlignment * kAlignment;
}

Layout::Layout(const architecture::Model& model, int first, int last) : first_(first), last_(last) {
  TWOBW_ASSERT(0 <= first && first < last && last <= static_cast<int>(model.size()), "layers [{}, {}) of {}",
               first, last, model.size());
  std::map<std::string, int> index_of;
  for (int layer = first; layer < last; ++layer) {
    layer_begin_.push_back(static_cast<int>(parameters_.size()));
    for (const architecture::Parameter& spec : model[layer].parameters) {
      Parameter parameter{.spec = spec, .layer = layer, .count = spec.count()};
      const int index = static_cast<int>(parameters_.size());
      const auto partner = index_of.find(parameter.spec.tied_to);
      parameter.alias = partner != index_of.end();
      if (parameter.alias) {
        parameter.offset = parameters_[partner->second].offset;
        ties_.push_back({.primary = partner->second, .copy = index});
      } else {
        parameter.offset = size_;
        size_ += room_of(parameter.count);
        if (!parameter.spec.tied_to.empty()) ties_.push_back({.copy = index});
      }
      index_of[parameter.spec.name] = index;
      parameters_.push_back(std::move(parameter));
    }
  }
  layer_begin_.push_back(static_cast<int>(parameters_.size()));

  // A primary whose copy lives on a later stage.
  for (int layer = last; layer < static_cast<int>(model.size()); ++layer) {
    for (const architecture::Parameter& spec : model[layer].parameters) {
      const auto primary = index_of.find(spec.tied_to);
      if (primary != index_of.end()) ties_.push_back({.primary = primary->second});
    }
  }

  // With three ends the sum would depend on their order of arrival.
  for (std::size_t i = 0; i < ties_.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      TWOBW_ASSERT(ties_[i].primary < 0 || ties_[i].primary != ties_[j].primary, "{} is tied more than once",
                   parameters_[ties_[i].primary].spec.name);
    }
  }

  gradient_size_ = size_;
  for (Parameter& parameter : parameters_) {
    parameter.gradient_offset = parameter.alias ? gradient_size_ : parameter.offset;
    if (parameter.alias) gradient_size_ += room_of(parameter.count);
  }
}

std::pair<int, int> Layout::range(int layer) const {
  TWOBW_ASSERT(layer >= first_ && layer < last_, "layer {} is not in [{}, {})", layer, first_, last_);
  return {layer_begin_[layer - first_], layer_begin_[layer - first_ + 1]};
}

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
