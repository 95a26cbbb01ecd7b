#include "planning/architecture/batch.h"

namespace twobw::architecture {

std::string_view name(Field field) {
  switch (field) {
    case Field::Tokens:
      return "tokens";
    case Field::Targets:
      return "targets";
    case Field::TokenTypes:
      return "token types";
    case Field::Positions:
      return "positions";
    case Field::Lengths:
      return "lengths";
    case Field::Labels:
      return "labels";
    case Field::Values:
      return "values";
    case Field::LossScale:
      return "loss scale";
    case Field::LabelScale:
      return "label scale";
  }
  return "";
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

}  // namespace twobw::architecture
