// The token that a step leaves to the next.
#include "base/error.h"
#include "models/decode_kernels_cuda.h"
#include "models/ops_cuda.h"
#include "models/ops_cuda/common.h"

namespace twobw::models::ops::cuda {

using at::Tensor;

void take_likeliest(const Tensor& logits, const Tensor& tokens, const Tensor& seen, std::int64_t places,
                    const Tensor& room, std::int64_t* told) {
  const Tensor rows = rows_of(logits);
  TWOBW_ASSERT(
      rows.size(0) == tokens.numel() && rows.size(0) == seen.numel() && room.numel() == 2 * rows.size(0),
      "{} rows of logits for {} tokens", rows.size(0), tokens.numel());
  with_type_of(rows, [&]<typename T>(T) {
    kernels::take_likeliest<T>({.logits = data_of<T>(rows),
                                .tokens = tokens.mutable_data_ptr<std::int64_t>(),
                                .told = told,
                                .seen = seen.mutable_data_ptr<std::int64_t>(),
                                .places = places,
                                .room = data_of<unsigned long long>(room),
                                .rows = static_cast<int>(rows.size(0)),
                                .classes = rows.size(1)},
                               current_stream());
  });
}

}  // namespace twobw::models::ops::cuda
