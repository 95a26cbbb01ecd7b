// Weights to compute with in 16 bits, on a CPU: the loops of engine/optim/kernels.h write them as floats,
// piece by piece, and each piece is rounded to nearest even while it is in the nearest cache.
#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/base/error.h"
#include "engine/optim/kernels.h"

namespace twobw::optim {

class RoundedPieces {
 public:
  // `target`: flat, bfloat16 or half.
  RoundedPieces(const Streams& streams, const at::Tensor& target) : streams_(streams), target_(target) {}

  // Calls work(streams of a piece) for pieces of [first, last); `compute` is a buffer there.
  template <typename Work>
  void for_each(std::int64_t first, std::int64_t last, const Work& work) const {
    std::array<float, kPiece> buffer;
    for (std::int64_t at = first; at < last; at += kPiece) {
      const std::int64_t count = std::min(kPiece, last - at);
      Streams piece = streams_.from(at, count);
      piece.compute = buffer.data();
      work(piece);
      if (target_.scalar_type() == at::kBFloat16) {
        round(buffer.data(), target_.mutable_data_ptr<at::BFloat16>() + at, count);
      } else {
        TWOBW_ASSERT(target_.scalar_type() == at::kHalf, "weights of {}",
                     c10::toString(target_.scalar_type()));
        round(buffer.data(), target_.mutable_data_ptr<at::Half>() + at, count);
      }
    }
  }

 private:
  static constexpr std::int64_t kPiece = 2048;

  template <typename T>
  static void round(const float* from, T* to, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(from[i]);
  }

  const Streams& streams_;
  const at::Tensor& target_;
};

}  // namespace twobw::optim
