// A microbatch is named tensors. A layer says which of them it reads, and a stage gets those of its layers.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace twobw::architecture {

enum class Field {
  Tokens,      // [sequences, context], int64
  Targets,     // likewise: the class that each place is to be predicted as; below 0: ignored
  TokenTypes,  // likewise: which part of a pair a token belongs to
  Positions,   // likewise: how many tokens of its document come before it in the sequence
  Lengths,     // [sequences], int64: tokens of each that are no padding
  Labels,      // likewise: the class of each; below 0: ignored
  Values,      // likewise, double: the number that each is to be told; not a number: ignored
  LossScale,   // [1], double: 1 over the number of labels in the whole update, over all replicas
  LabelScale,  // likewise, for a loss of two means: of the labels alone; LossScale is then of the others
};
inline constexpr std::array kFields = {Field::Tokens,    Field::Targets,   Field::TokenTypes,
                                       Field::Positions, Field::Lengths,   Field::Labels,
                                       Field::Values,    Field::LossScale, Field::LabelScale};

std::string_view name(Field field);

// Elements, of 8 bytes each.
std::int64_t count_of(Field field, std::int64_t sequences, std::int64_t context);

// A set of them.
class BatchFields {
 public:
  constexpr BatchFields() = default;
  constexpr BatchFields(std::initializer_list<Field> fields) {
    for (const Field field : fields) bits_ |= bit(field);
  }

  constexpr bool has(Field field) const { return (bits_ & bit(field)) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr BatchFields operator|(BatchFields other) const {
    other.bits_ |= bits_;
    return other;
  }
  constexpr BatchFields operator&(BatchFields other) const {
    other.bits_ &= bits_;
    return other;
  }
  constexpr BatchFields without(BatchFields other) const {
    other.bits_ = bits_ & ~other.bits_;
    return other;
  }
  constexpr bool operator==(const BatchFields&) const = default;

  // Of all its fields.
  std::int64_t count(std::int64_t sequences, std::int64_t context) const;

 private:
  static constexpr unsigned bit(Field field) { return 1U << static_cast<unsigned>(field); }
  unsigned bits_ = 0;
};

// What a loss is made of.
inline constexpr BatchFields kTokenLoss = {Field::Targets, Field::LossScale};
inline constexpr BatchFields kSequenceLoss = {Field::Labels, Field::LossScale};
inline constexpr BatchFields kRegressionLoss = {Field::Values, Field::LossScale};
inline constexpr BatchFields kTokenAndSequenceLoss = {Field::Targets, Field::LossScale, Field::Labels,
                                                      Field::LabelScale};
// What counts in one.
inline constexpr BatchFields kCounted = {Field::Targets, Field::Labels, Field::Values};
// What is not in the data, but follows from all of an update.
inline constexpr BatchFields kScales = {Field::LossScale, Field::LabelScale};

}  // namespace twobw::architecture
