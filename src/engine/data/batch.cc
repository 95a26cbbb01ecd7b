#include "engine/data/batch.h"

#include <algorithm>

namespace twobw::data {
namespace {

std::vector<std::int64_t> shape_of(Field field, int sequences, int context) {
  const std::int64_t count = architecture::count_of(field, sequences, context);
  const bool by_token = count_of(field, 1, 2) == 2;
  return by_token ? std::vector<std::int64_t>{sequences, context} : std::vector{count};
}

}  // namespace

Batch Batch::to(at::Device device) const {
  Batch result;
  for (const Field field : architecture::kFields) {
    if ((*this)[field].defined()) result[field] = (*this)[field].to(device);
  }
  return result;
}

at::Tensor make_field(Field field, int sequences, int context, const at::TensorOptions& options) {
  const bool real = architecture::kScales.has(field) || field == Field::Values;
  const auto type = real ? at::kDouble : at::kLong;
  return at::empty(shape_of(field, sequences, context), options.dtype(type));
}

Batch make_batch(BatchFields requested, BatchFields available, int sequences, int context) {
  Batch batch;
  for (const Field field : architecture::kFields) {
    if (requested.has(field) && available.has(field)) batch[field] = make_field(field, sequences, context);
  }
  return batch;
}

void cut_padding(Batch& batch) {
  constexpr std::int64_t kGrain = 8;
  const auto longest = batch[Field::Lengths].max().item<std::int64_t>();
  for (const Field field : {Field::Tokens, Field::Targets, Field::TokenTypes, Field::Positions}) {
    if (!batch[field].defined()) continue;
    const std::int64_t places = std::min(batch[field].size(1), (longest + kGrain - 1) / kGrain * kGrain);
    batch[field] = batch[field].narrow(1, 0, places).contiguous();
  }
}

std::int64_t count_labels(const Batch& batch) {
  std::int64_t count = 0;
  for (const Field field : {Field::Targets, Field::Labels}) {
    if (batch[field].defined()) count += batch[field].ge(0).sum().item<std::int64_t>();
  }
  if (batch[Field::Values].defined())
    count += batch[Field::Values].isnan().logical_not().sum().item<std::int64_t>();
  return count;
}

}  // namespace twobw::data
