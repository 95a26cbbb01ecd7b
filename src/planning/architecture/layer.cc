#include "planning/architecture/layer.h"

#include <fmt/ranges.h>

#include <numeric>

namespace twobw::architecture {

std::string_view name(Field field) {
  constexpr std::string_view kNames[] = {"tokens", "targets", "token types", "positions",  "lengths",
                                         "labels", "values",  "loss scale",  "label scale"};
  return kNames[static_cast<std::size_t>(field)];
}

std::int64_t count_of(Field field, std::int64_t sequences, std::int64_t context) {
  switch (field) {
    case Field::Tokens:
    case Field::Targets:
    case Field::TokenTypes:
    case Field::Positions:
      return sequences * context;
    case Field::Lengths:
    case Field::Labels:
    case Field::Values:
      return sequences;
    case Field::LossScale:
    case Field::LabelScale:
      return 1;
  }
  return 0;
}

std::int64_t BatchFields::count(std::int64_t sequences, std::int64_t context) const {
  std::int64_t sum = 0;
  for (const Field field : kFields) sum += has(field) ? count_of(field, sequences, context) : 0;
  return sum;
}

std::int64_t Parameter::count() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

Work Work::times(double factor) const {
  return {.matrix_flops = factor * matrix_flops,
          .matrix_bytes = factor * matrix_bytes,
          .element_bytes = factor * element_bytes,
          .saved_bytes = factor * saved_bytes,
          .kept = factor * kept,
          .output = factor * output,
          .working = factor * working};
}

double parameter_count(const Layer& layer) {
  double count = 0;
  for (const Parameter& parameter : layer.parameters) count += static_cast<double>(parameter.count());
  return count;
}

std::int64_t parameter_count(const Model& model) {
  std::int64_t count = 0;
  for (const Layer& layer : model) {
    for (const Parameter& parameter : layer.parameters) {
      if (parameter.tied_to.empty()) count += parameter.count();
    }
  }
  return count;
}

std::vector<std::string> kinds_of(const Model& model) {
  std::vector<std::string> kinds;
  for (const Layer& layer : model) kinds.push_back(layer.kind);
  return kinds;
}

BatchFields taken_by(const Model& model, int first, int last) {
  BatchFields fields;
  for (int layer = first; layer < last; ++layer) fields = fields | model[layer].takes;
  return fields;
}

namespace {

// Number of consecutive repetitions of the `period` kinds that start at `begin`.
std::size_t repeats(const std::vector<std::string>& kinds, std::size_t begin, std::size_t period) {
  std::size_t end = begin + period;
  while (end < kinds.size() && kinds[end] == kinds[end - period]) ++end;
  return (end - begin) / period;
}

}  // namespace

std::string describe(const Model& model) {
  const std::vector<std::string> kinds = kinds_of(model);
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin < kinds.size();) {
    std::size_t period = 1;
    while (period < 8 && begin + 2 * period < kinds.size() && repeats(kinds, begin, period) < 2) ++period;
    const std::size_t count = repeats(kinds, begin, period);
    if (count < 2) {
      parts.push_back(kinds[begin++]);
      continue;
    }
    const std::vector<std::string> block(kinds.begin() + begin, kinds.begin() + begin + period);
    parts.push_back(fmt::format("{} x ({})", count, fmt::join(block, ", ")));
    begin += count * period;
  }
  return fmt::format("{} layers: {}", kinds.size(), fmt::join(parts, ", "));
}

}  // namespace twobw::architecture
