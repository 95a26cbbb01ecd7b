// The tensors of a microbatch by field; fields that were not requested are undefined.
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <cstdint>

#include "planning/architecture/layer.h"

namespace twobw::data {

using architecture::BatchFields;
using architecture::Field;

inline constexpr std::int64_t kIgnored = -100;  // target that does not count

class Batch {
 public:
  at::Tensor& operator[](Field field) { return tensors_[static_cast<std::size_t>(field)]; }
  const at::Tensor& operator[](Field field) const { return tensors_[static_cast<std::size_t>(field)]; }

  Batch to(at::Device device) const;

 private:
  std::array<at::Tensor, architecture::kFields.size()> tensors_;
};

// An uninitialized tensor of the field's shape and type.
at::Tensor make_field(Field field, int sequences, int context, const at::TensorOptions& options = {});

// Uninitialized tensors of the fields that are both requested and available.
Batch make_batch(BatchFields requested, BatchFields available, int sequences, int context);

// The requested ones of tokens and targets: write(row, to, offset) copies a row's tokens from that offset on.
template <typename Write>
Batch windows(int sequences, int context, BatchFields fields, Write write) {
  Batch batch = make_batch(fields, {Field::Tokens, Field::Targets}, sequences, context);
  for (const Field field : {Field::Tokens, Field::Targets}) {
    if (!batch[field].defined()) continue;
    auto* to = batch[field].mutable_data_ptr<std::int64_t>();
    for (int row = 0; row < sequences; ++row)
      write(row, to + std::int64_t{row} * context, field == Field::Targets);
  }
  return batch;
}

// Cuts padding common to all sequences (by Field::Lengths), to a multiple of a few tokens.
void cut_padding(Batch& batch);

// Number of targets, labels and values that count.
std::int64_t count_labels(const Batch& batch);

}  // namespace twobw::data
