#include "engine/models/decode_kernels.h"

#include <algorithm>
#include <cmath>

#include "core/base/attributes.h"
#include "engine/models/lanes.h"

namespace twobw::models {

TWOBW_VECTORIZED
void few_rows_product(const FewRowsProduct& product, std::int64_t begin, std::int64_t end) {
  for (std::int64_t column = begin; column < end; ++column) {
    const float* weight = product.weight + column * product.in;
    const float bias = product.bias != nullptr ? product.bias[column] : 0.0f;
    for (std::int64_t row = 0; row < product.rows; ++row)
      product.out[row * product.columns + column] =
          dot(product.x + row * product.in, weight, product.in) + bias;
  }
}

TWOBW_VECTORIZED
void attend(const float* query, const float* keys, const float* values, float* scores, float* out,
            std::int64_t places, std::int64_t size) {
  const float scale = 1.0f / std::sqrt(static_cast<float>(size));
  float top = -INFINITY;
  for (std::int64_t place = 0; place < places; ++place) {
    scores[place] = dot(query, keys + place * size, size) * scale;
    top = std::max(top, scores[place]);
  }
  float sum = 0;
  std::fill(out, out + size, 0.0f);
  for (std::int64_t place = 0; place < places; ++place) {
    const float weight = std::exp(scores[place] - top);
    const float* value = values + place * size;
    sum += weight;
    for (std::int64_t i = 0; i < size; ++i) out[i] += weight * value[i];
  }
  for (std::int64_t i = 0; i < size; ++i) out[i] /= sum;
}

}  // namespace twobw::models
