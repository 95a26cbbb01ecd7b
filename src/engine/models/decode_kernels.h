// Plain loops for steps of a decoder, as in kernels.h. A row's numbers depend on that row alone, in an order
// that the sizes fix.
#pragma once

#include <cstdint>

namespace twobw::models {

// out [rows, columns] = x [rows, in] weight^T [in, columns] + bias [columns] (null: none).
struct FewRowsProduct {
  const float* x = nullptr;
  const float* weight = nullptr;
  const float* bias = nullptr;
  float* out = nullptr;
  std::int64_t rows = 0, in = 0, columns = 0;
};
// Columns [begin, end) of it.
void few_rows_product(const FewRowsProduct& product, std::int64_t begin, std::int64_t end);

// Attention of one query [size] to `places` keys and values [places, size] -> out [size]; `scores` has room
// for as many numbers as there are places.
void attend(const float* query, const float* keys, const float* values, float* scores, float* out,
            std::int64_t places, std::int64_t size);

}  // namespace twobw::models
