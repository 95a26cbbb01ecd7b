#include "engine/models/kernels.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "core/base/attributes.h"

namespace twobw::models {
namespace {

// Reductions use a fixed number of lanes, so that their order does not depend on the vector width.
constexpr int kLanes = 16;

inline __attribute__((always_inline)) float sum_of(const float (&lanes)[kLanes]) {
  float total = 0;
  for (const float lane : lanes) total += lane;
  return total;
}

inline __attribute__((always_inline)) float dot(const float* a, const float* b, std::int64_t n) {
  const std::int64_t whole = n - n % kLanes;
  float sums[kLanes] = {};
  for (std::int64_t i = 0; i < whole; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  float total = sum_of(sums);
  for (std::int64_t i = whole; i < n; ++i) total += a[i] * b[i];
  return total;
}

// e^x to about one unit in the last place for x in [-87, 88], by reduction to [-ln2/2, ln2/2] and a
// polynomial of degree 6; branch-free, so that loops over it vectorize.
inline __attribute__((always_inline)) float fast_exp(float x) {
  x = x < -87.0f ? -87.0f : x;
  x = x > 88.0f ? 88.0f : x;
  constexpr float kShift = 12582912.0f;  // 1.5 * 2^23: adding it rounds to a whole number
  const float shifted = x * 1.44269504088896341f + kShift;
  const float n = shifted - kShift;
  const float r = (x - n * 0.693145751953125f) - n * 1.428606765330187e-6f;
  float p = 1.3888889e-3f;
  p = p * r + 8.3333333e-3f;
  p = p * r + 4.1666667e-2f;
  p = p * r + 1.6666667e-1f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const auto power = (std::bit_cast<std::int32_t>(shifted) << 23) + std::bit_cast<std::int32_t>(1.0f);
  return p * std::bit_cast<float>(power);
}

inline __attribute__((always_inline)) float largest(const float* x, std::int64_t n) {
  const std::int64_t whole = n - n % kLanes;
  float highest[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) highest[lane] = x[0];
  for (std::int64_t i = 0; i < whole; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane)
      highest[lane] = x[i + lane] > highest[lane] ? x[i + lane] : highest[lane];
  }
  float top = highest[0];
  for (const float candidate : highest) top = candidate > top ? candidate : top;
  for (std::int64_t i = whole; i < n; ++i) top = x[i] > top ? x[i] : top;
  return top;
}

constexpr float kRoot = 0.7978845608028654f;  // sqrt(2/pi)
constexpr float kCubic = 0.044715f;

// By 1 - tanh(u) = 2 / (1 + e^2u), without harmful cancellation and without libm.
inline __attribute__((always_inline)) float half_tanh_plus_half(float u) {
  return 1.0f / (1.0f + fast_exp(-2.0f * u));
}

constexpr float kDensity = 0.3989422804014327f;  // of the normal distribution at 0: 1 / sqrt(2 pi)

struct Normal {
  float power;     // e^(-x^2 / 2)
  float integral;  // of the density up to x
};

// To 5e-7 of the integral for x above -4. Left of -|x| lies t p(t) e^(-x^2 / 2) with t = 1 / (1 + |x| / sqrt
// 8): p is the polynomial of degree 8 that is relatively closest, 4e-8 at most.
inline __attribute__((always_inline)) Normal normal_up_to(float x) {
  const float t = 1.0f / (1.0f + 0.35355339f * (x < 0.0f ? -x : x));
  float p = -0.029532638f;
  p = p * t + 0.14227847f;
  p = p * t - 0.24358123f;
  p = p * t + 0.13901209f;
  p = p * t - 0.013297975f;
  p = p * t + 0.10133712f;
  p = p * t + 0.12155348f;
  p = p * t + 0.14118743f;
  p = p * t + 0.14104322f;
  const float power = fast_exp(-0.5f * x * x);
  const float tail = p * t * power;
  return {power, x < 0.0f ? tail : 1.0f - tail};
}

constexpr int kGroups = 8;           // counters that are drawn for at once
constexpr int kDrawn = 4 * kGroups;  // columns

using Factors = float[kDrawn];

inline __attribute__((always_inline)) void draw(const RowsOfMask& mask, const MaskRow& row,
                                                std::int64_t column, Factors& factors) {
  const auto first = static_cast<std::uint32_t>(column / 4);
  for (int group = 0; group < kGroups; ++group)
    dropout_factors(mask.key, row, first + static_cast<std::uint32_t>(group), mask.rate, factors + 4 * group);
}

// Number of drawn columns within the row.
inline __attribute__((always_inline)) int drawn(const RowsOfMask& mask, std::int64_t column) {
  return static_cast<int>(std::min<std::int64_t>(kDrawn, mask.width - column));
}

}  // namespace

TWOBW_VECTORIZED
void softmax_cross_entropy(float* logits, const std::int64_t* targets, double* loss, std::int64_t rows,
                           std::int64_t classes, float gradient_scale) {
  const std::int64_t whole = classes - classes % kLanes;
  for (std::int64_t row = 0; row < rows; ++row) {
    float* z = logits + row * classes;
    if (targets[row] < 0) {
      loss[row] = 0.0;
      if (gradient_scale != 0.0f) std::fill_n(z, classes, 0.0f);
      continue;
    }
    const float top = largest(z, classes);
    const float target_logit = z[targets[row]];
    float sums[kLanes] = {};
    for (std::int64_t i = 0; i < whole; i += kLanes) {
      for (int lane = 0; lane < kLanes; ++lane) {
        const float value = fast_exp(z[i + lane] - top);
        z[i + lane] = value;
        sums[lane] += value;
      }
    }
    double total = 0.0;
    for (float sum : sums) total += sum;
    for (std::int64_t i = whole; i < classes; ++i) {
      z[i] = fast_exp(z[i] - top);
      total += z[i];
    }
    // A logit that is not a number fails every comparison above; it must not go unnoticed.
    loss[row] = std::isfinite(target_logit) ? std::log(total) + top - target_logit : NAN;
    if (gradient_scale == 0.0f) continue;
    const float scale = std::isfinite(loss[row]) ? static_cast<float>(gradient_scale / total) : NAN;
    for (std::int64_t i = 0; i < classes; ++i) z[i] *= scale;
    z[targets[row]] -= gradient_scale;
  }
}

TWOBW_VECTORIZED
void gelu_forward(const float* __restrict x, float* __restrict out, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float v = x[i];
    const float s = half_tanh_plus_half(kRoot * (v + kCubic * v * v * v));  // (1 + tanh u) / 2
    out[i] = v * s;
  }
}

TWOBW_VECTORIZED
void gelu_backward(const float* __restrict x, const float* __restrict grad_out, float* __restrict grad_x,
                   std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float v = x[i];
    const float s = half_tanh_plus_half(kRoot * (v + kCubic * v * v * v));
    const float slope = kRoot * (1.0f + 3.0f * kCubic * v * v);
    // d/dv [v s(u)] = s + v * 2 s (1-s) u'
    grad_x[i] = grad_out[i] * (s + v * 2.0f * s * (1.0f - s) * slope);
  }
}

TWOBW_VECTORIZED
void erf_gelu_forward(const float* __restrict x, float* __restrict out, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = x[i] * normal_up_to(x[i]).integral;
}

TWOBW_VECTORIZED
void erf_gelu_backward(const float* __restrict x, const float* __restrict grad_out, float* __restrict grad_x,
                       std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const Normal normal = normal_up_to(x[i]);
    grad_x[i] = grad_out[i] * (normal.integral + x[i] * (kDensity * normal.power));
  }
}

TWOBW_VECTORIZED
void rms_norm_forward(const float* __restrict x, const float* __restrict weight, float* __restrict out,
                      float* __restrict scale, std::int64_t rows, std::int64_t width, double eps) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* from = x + row * width;
    const double square = dot(from, from, width) / static_cast<double>(width);
    const auto factor = static_cast<float>(1 / std::sqrt(square + eps));
    scale[row] = factor;
    for (std::int64_t i = 0; i < width; ++i) out[row * width + i] = from[i] * factor * weight[i];
  }
}

// With h = x scale and g = grad_out weight: grad_x = scale (g - h mean(g h)).
TWOBW_VECTORIZED
void rms_norm_backward(const float* __restrict x, const float* __restrict weight,
                       const float* __restrict scale, const float* __restrict grad_out,
                       float* __restrict grad_x, std::int64_t rows, std::int64_t width) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* from = x + row * width;
    float* to = grad_x + row * width;
    for (std::int64_t i = 0; i < width; ++i) to[i] = grad_out[row * width + i] * weight[i];
    const float factor = scale[row];
    const float along = dot(to, from, width) * factor * factor / static_cast<float>(width);
    for (std::int64_t i = 0; i < width; ++i) to[i] = factor * (to[i] - from[i] * along);
  }
}

TWOBW_VECTORIZED
void rms_norm_weight_gradient(const float* __restrict x, const float* __restrict scale,
                              const float* __restrict grad_out, float* __restrict grad_weight,
                              std::int64_t rows, std::int64_t width, std::int64_t begin, std::int64_t end) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const float factor = scale[row];
    for (std::int64_t i = begin; i < end; ++i)
      grad_weight[i] += grad_out[row * width + i] * x[row * width + i] * factor;
  }
}

TWOBW_VECTORIZED
void swiglu_forward(const float* __restrict x, float* __restrict out, std::int64_t rows, std::int64_t width) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const float *gate = x + row * 2 * width, *value = gate + width;
    for (std::int64_t i = 0; i < width; ++i)
      out[row * width + i] = gate[i] / (1.0f + fast_exp(-gate[i])) * value[i];
  }
}

TWOBW_VECTORIZED
void swiglu_backward(const float* __restrict x, const float* __restrict grad_out, float* __restrict grad_x,
                     std::int64_t rows, std::int64_t width) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const float *gate = x + row * 2 * width, *value = gate + width, *gradient = grad_out + row * width;
    float* to = grad_x + row * 2 * width;
    for (std::int64_t i = 0; i < width; ++i) {
      const float s = 1.0f / (1.0f + fast_exp(-gate[i]));
      to[i] = gradient[i] * value[i] * (s * (1.0f + gate[i] * (1.0f - s)));
      to[width + i] = gradient[i] * (gate[i] * s);
    }
  }
}

TWOBW_VECTORIZED
void rotate_row(const float* __restrict x, const float* __restrict angles, float* __restrict out, int heads,
                int turned, int size, float sign) {
  const int half = size / 2;
  for (int head = 0; head < turned; ++head) {
    const float *first = x + head * size, *second = first + half;
    float* to = out + head * size;
    for (int i = 0; i < half; ++i) {
      const float cosine = angles[i], sine = sign * angles[half + i];
      to[i] = first[i] * cosine - second[i] * sine;
      to[half + i] = second[i] * cosine + first[i] * sine;
    }
  }
  for (int i = turned * size; i < heads * size; ++i) out[i] = x[i];
}

TWOBW_VECTORIZED
void drop_rows(const RowsOfMask& mask, const float* x, const float* residual, float* out, std::int64_t begin,
               std::int64_t end) {
  Factors factors;
  for (std::int64_t row = begin; row < end; ++row) {
    const MaskRow place = mask_row(row, mask.n1, mask.n2);
    for (std::int64_t column = 0; column < mask.width; column += kDrawn) {
      draw(mask, place, column, factors);
      const std::int64_t at = row * mask.width + column;
      const int count = drawn(mask, column);
      if (residual != nullptr) {
        for (int i = 0; i < count; ++i) out[at + i] = residual[at + i] + x[at + i] * factors[i];
      } else {
        for (int i = 0; i < count; ++i) out[at + i] = x[at + i] * factors[i];
      }
    }
  }
}

TWOBW_VECTORIZED
void softmax_row(float* scores, std::int64_t width, std::int64_t seen, float scale) {
  const float top = largest(scores, seen);
  const std::int64_t whole = seen - seen % kLanes;
  float sums[kLanes] = {};
  for (std::int64_t i = 0; i < whole; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const float power = fast_exp((scores[i + lane] - top) * scale);
      scores[i + lane] = power;
      sums[lane] += power;
    }
  }
  for (std::int64_t i = whole; i < seen; ++i) {
    scores[i] = fast_exp((scores[i] - top) * scale);
    sums[i - whole] += scores[i];
  }
  const float share = 1.0f / sum_of(sums);
  for (std::int64_t i = 0; i < seen; ++i) scores[i] *= share;
  std::fill(scores + seen, scores + width, 0.0f);
}

// The gradient of scores, for weights w = softmax(scale * scores) with gradient g: scale * w * (g - sum of w
// g).
TWOBW_VECTORIZED
void softmax_row_backward(const float* weights, float* gradient, std::int64_t width, float scale) {
  const std::int64_t whole = width - width % kLanes;
  float sums[kLanes] = {};
  for (std::int64_t i = 0; i < whole; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) sums[lane] += weights[i + lane] * gradient[i + lane];
  }
  for (std::int64_t i = whole; i < width; ++i) sums[i - whole] += weights[i] * gradient[i];
  const float common = sum_of(sums);
  for (std::int64_t i = 0; i < width; ++i) gradient[i] = scale * (weights[i] * (gradient[i] - common));
}

TWOBW_VECTORIZED
void skinny_gemm(const SkinnyGemm& product, std::int64_t begin, std::int64_t end) {
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
