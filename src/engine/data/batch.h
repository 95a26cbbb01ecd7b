// The tensors of a microbatch by name; those that nobody asked for are undefined.
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <cstdint>

#include "planning/architecture/layer.h"

namespace twobw::data {

using architecture::BatchFields;
using architecture::Field;

inline constexpr std::int64_t kIgnored = -100;  // the target where nothing is to be predicted

class Batch {
 public:
  at::Tensor& operator[](Field field) { return tensors_[static_cast<std::size_t>(field)]; }
  const at::Tensor& operator[](Field field) const { return tensors_[static_cast<std::size_t>(field)]; }

  Batch to(at::Device device) const;

 private:
  std::array<at::Tensor, architecture::kFields.size()> tensors_;
};

// Of the field's shape and type, not initialised.
at::Tensor make_field(Field field, int sequences, int context, const at::TensorOptions& options = {});

// Tokens and targets, those of them that are asked for, of windows of text: write(row, to, offset) copies a
// row's tokens from that offset on.
template <typename Write>
Batch windows(int sequences, int context, BatchFields fields, Write write) {
  Batch batch;
  for (const Field field : {Field::Tokens, Field::Targets}) {
    if (!fields.has(field)) continue;
    batch[field] = make_field(field, sequences, context);
    auto* to = batch[field].mutable_data_ptr<std::int64_t>();
    for (int row = 0; row < sequences; ++row)
      write(row, to + std::int64_t{row} * context, field == Field::Targets);
  }
  return batch;
}

// Leaves out what is padding in all sequences, by Field::Lengths, up to a multiple of a few tokens.
void cut_padding(Batch& batch);

// How many of the batch's targets, labels and values count.
std::int64_t count_labels(const Batch& batch);

}  // namespace twobw::data
