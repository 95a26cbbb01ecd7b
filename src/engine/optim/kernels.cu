// Steps and predictions of all optimizers on a GPU, in one pass over memory.
#include <algorithm>
#include <type_traits>

#include "engine/optim/kernels_cuda.h"

namespace twobw::optim::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kLanes = 4;                 // floats in the 16 bytes that a thread moves at once
constexpr int kVectors = 2;               // such loads under way in every stream, for each thread
constexpr int kHeld = kLanes * kVectors;  // elements a thread works on at once
constexpr int kStep = kThreads * kHeld;   // and a block

__device__ void correct(AdamWRule& rule, double n) {
  rule.correction1 = static_cast<float>(1.0 - pow(static_cast<double>(rule.beta1), n));
  rule.root_correction2 = static_cast<float>(sqrt(1.0 - pow(static_cast<double>(rule.beta2), n)));
}
__device__ void correct(SgdRule&, double) {}
__device__ void correct(LionRule&, double) {}

// The rule of the next update of a piece.
template <typename Rule>
__device__ Rule rule_of(Rule rule, const Piece& piece, const Control& control) {
  rule.learning_rate *= piece.rate;
  rule.decay = piece.decay;
  rule.gradient_scale = control.gradient_scale;
  correct(rule, control.applied + 1);
  return rule;
}

// The rule of the update after `applied` ones, for gradients with this loss scale.
template <typename Rule>
__device__ Rule predicting_rule_of(const Rule& next, float ratio, const Piece& piece, Control control,
                                   std::int32_t applied, float loss_scale) {
  control.applied = applied;
  control.gradient_scale = control.last_scale * ratio / loss_scale;
  return rule_of(next, piece, control);
}

// A thread's elements of one stream, in registers, with the interface of a pointer, so that the rules apply
// to it as to memory. Loads and stores bypass the cache.
//
// Four adjacent elements are loaded at once or, if not `Whole`, one by one up to `left`. The same code then
// computes, so that the rounding of an element does not depend on its position.
class Held {
 public:
  __device__ explicit Held(bool used) : used_(used) {}
  __device__ explicit operator bool() const { return used_; }
  __device__ float& operator[](std::int64_t i) const { return values_[i]; }

  template <bool Whole>
  __device__ void read(const float* from, int left) {
    if (!used_) return;
#pragma unroll
    for (int i = 0; i < kHeld; i += kLanes) {
      const float* at = from + i * kThreads;
      const int inside = left - i * kThreads;
      const float4 four = Whole ? __ldcs(reinterpret_cast<const float4*>(at))
                                : float4{inside > 0 ? at[0] : 0, inside > 1 ? at[1] : 0,
                                         inside > 2 ? at[2] : 0, inside > 3 ? at[3] : 0};
      values_[i] = four.x;
      values_[i + 1] = four.y;
      values_[i + 2] = four.z;
      values_[i + 3] = four.w;
    }
  }
  template <bool Whole, typename T>
  __device__ void write(T* to, int left) const {
    if (!used_) return;
#pragma unroll
    for (int i = 0; i < kHeld; i += kLanes) {
      T* at = to + i * kThreads;
      if constexpr (Whole) {
        store(at, &values_[i]);
      } else {
#pragma unroll
        for (int lane = 0; lane < kLanes; ++lane) {
          if (lane < left - i * kThreads) at[lane] = values_[i + lane];
        }
      }
    }
  }

 private:
  static __device__ void store(float* to, const float* v) {
    __stcs(reinterpret_cast<float4*>(to), float4{v[0], v[1], v[2], v[3]});
  }
  // Weights to compute with, which comes next: these a cache may keep.
  static __device__ void store(__nv_bfloat16* to, const float* v) {
    *reinterpret_cast<uint2*>(to) = {bits(v[0], v[1]), bits(v[2], v[3])};
  }
  static __device__ void store(__half* to, const float* v) {
    *reinterpret_cast<uint2*>(to) = {half_bits(v[0], v[1]), half_bits(v[2], v[3])};
  }
  static __device__ unsigned bits(__nv_bfloat16 low, __nv_bfloat16 high) {
    return __bfloat16_as_ushort(low) | static_cast<unsigned>(__bfloat16_as_ushort(high)) << 16;
  }
  static __device__ unsigned half_bits(float low, float high) {
    return __half_as_ushort(__float2half_rn(low)) |
           static_cast<unsigned>(__half_as_ushort(__float2half_rn(high))) << 16;
  }

  bool used_;
  mutable float values_[kHeld];  // as a pointer that is const may be written through
};

// StreamsOf in registers.
struct HeldStreams {
  Held source, target, gradient, moment1, moment2, compute, partial_gradient;

  template <typename Compute>
  __device__ explicit HeldStreams(const StreamsOf<Compute>& s)
      : source(true),
        target(s.target),
        gradient(s.gradient),
        moment1(true),
        moment2(s.moment2),
        compute(s.compute),
        partial_gradient(s.partial_gradient) {}

  template <bool Whole, typename Compute>
  __device__ void read(const StreamsOf<Compute>& s, std::int64_t at, int left) {
    source.read<Whole>(s.source + at, left);
    gradient.read<Whole>(s.gradient + at, left);
    moment1.read<Whole>(s.moment1 + at, left);
    moment2.read<Whole>(s.moment2 + at, left);
    partial_gradient.read<Whole>(s.partial_gradient + at, left);
  }
  template <bool Whole, typename Compute>
  __device__ void write(const StreamsOf<Compute>& s, std::int64_t at, int left) const {
    target.write<Whole>(s.target + at, left);
    gradient.write<Whole>(s.gradient + at, left);
    moment1.write<Whole>(s.moment1 + at, left);
    moment2.write<Whole>(s.moment2 + at, left);
    compute.write<Whole>(s.compute + at, left);
  }
};

template <typename Rule, typename Compute>
__global__ void __launch_bounds__(kThreads, 3)
    apply_kernel(Rule given, StreamsOf<Compute> streams, const Piece* pieces, const Control* control) {
  __shared__ Rule shared_rule;
  streams.partial_gradient = nullptr;
  const Piece piece = pieces[blockIdx.x];
  const Control now = *control;
  const std::int64_t first = piece.offset + kLanes * threadIdx.x;
  const int count = piece.count - kLanes * static_cast<int>(threadIdx.x);     // from `first` on
  const int vectors = piece.offset % kLanes == 0 ? piece.count - kStep : -1;  // last step that is whole
  HeldStreams held(streams);
  const auto read = [&](int begin) {
    if (begin <= vectors) return held.template read<true>(streams, first + begin, 0);
    held.template read<false>(streams, first + begin, count - begin);
  };
  if (now.skip == 0) read(0);  // comes while thread 0 computes powers
  if (threadIdx.x == 0) shared_rule = rule_of(given, piece, now);
  __syncthreads();
  const Rule rule = shared_rule;
  if (now.skip != 0) {
#pragma unroll 1
    for (int i = threadIdx.x; i < piece.count; i += kThreads) skip_element(streams, piece.offset + i);
    return;
  }
  for (int begin = 0; begin < piece.count;) {
#pragma unroll
    for (int i = 0; i < kHeld; ++i) apply_element(rule, held, i);
    if (begin <= vectors) {
      held.template write<true>(streams, first + begin, 0);
    } else {
      held.template write<false>(streams, first + begin, count - begin);
    }
    begin += kStep;
    if (begin < piece.count) read(begin);
  }
}

// An update and the prediction of the next one, or where not `Steps` the prediction alone, which leaves
// everything but the weights to compute with as it is.
template <bool Steps, typename Rule, typename Compute>
__global__ void __launch_bounds__(kThreads, 3)
    predict_kernel(Rule given, Rule next, float ratio, StreamsOf<Compute> streams, const Piece* pieces,
                   const Control* control) {
  __shared__ Rule shared_rule, shared_next;
  if constexpr (!Steps) streams.target = streams.gradient = nullptr;
  const Piece piece = pieces[blockIdx.x];
  const Control now = *control;
  const bool steps = Steps && now.skip == 0;
  const std::int64_t first = piece.offset + kLanes * threadIdx.x;
  const int count = piece.count - kLanes * static_cast<int>(threadIdx.x);     // from `first` on
  const int vectors = piece.offset % kLanes == 0 ? piece.count - kStep : -1;  // last step that is whole
  HeldStreams held(streams);
  const auto read = [&](int begin) {
    if (begin <= vectors) return held.template read<true>(streams, first + begin, 0);
    held.template read<false>(streams, first + begin, count - begin);
  };
  read(0);  // comes while thread 0 computes powers
  if (threadIdx.x == 0) {
    shared_rule = rule_of(given, piece, now);
    // A step is judged only when it has been made.
    shared_next = predicting_rule_of(next, ratio, piece, now, now.applied + (steps ? 1 : 0),
                                     Steps ? now.scaling.next : now.scaling.current);
  }
  __syncthreads();
  const Rule rule = shared_rule, coming = shared_next;
  for (int begin = 0; begin < piece.count;) {
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      if (steps) {
        apply_and_predict_element(rule, coming, held, i);
      } else {
        if constexpr (Steps) {
          held.target[i] = held.source[i];
          held.gradient[i] = 0.0f;
        }
        held.compute[i] = predicted(coming, held, i, held.source[i]);
      }
    }
    const auto write = [&](auto whole, int left) {
      constexpr bool kWhole = decltype(whole)::value;
      const std::int64_t at = first + begin;
      if constexpr (Steps) {
        held.target.template write<kWhole>(streams.target + at, left);
        held.gradient.template write<kWhole>(streams.gradient + at, left);
        held.moment1.template write<kWhole>(streams.moment1 + at, left);
        held.moment2.template write<kWhole>(streams.moment2 + at, left);
      }
      held.compute.template write<kWhole>(streams.compute + at, left);
    };
    if (begin <= vectors) {
      write(std::true_type(), 0);
    } else {
      write(std::false_type(), count - begin);
    }
    begin += kStep;
    if (begin < piece.count) read(begin);
  }
}

__global__ void prepare_kernel(const double* squared_norm, double clip, Control* control) {
  const float loss_scale = control->scaling.current;
  const double norm = sqrt(*squared_norm) / loss_scale;
  control->loss_scale = loss_scale;
  control->squared_norm = *squared_norm / loss_scale / loss_scale;
  control->skip = isfinite(norm) ? 0 : 1;
  const float clipping = clip > 0 ? static_cast<float>(fmin(1.0, clip / (norm + 1e-6))) : 1.0f;
  control->gradient_scale = clipping / loss_scale;
  if (control->skip == 0) control->last_scale = clipping;
}

__global__ void count_kernel(Control* control) {
  if (control->skip == 0) ++control->applied;
  judge(control->scaling, control->skip != 0);
}

}  // namespace

void add_pieces(std::vector<Piece>& pieces, std::int64_t offset, std::int64_t count, float decay,
                float rate) {
  for (std::int64_t begin = 0; begin < count; begin += kPieceSize) {
    const auto size = static_cast<std::int32_t>(std::min<std::int64_t>(kPieceSize, count - begin));
    pieces.push_back({.offset = offset + begin, .count = size, .decay = decay, .rate = rate});
  }
}

template <typename Rule, typename Compute>
void apply(const Rule& rule, const StreamsOf<Compute>& streams, const Piece* pieces, int piece_count,
           const Control* control, cudaStream_t stream) {
  if (piece_count == 0) return;
  apply_kernel<<<piece_count, kThreads, 0, stream>>>(rule, streams, pieces, control);
}

template <typename Rule, typename Compute>
void apply_and_predict(const Rule& rule, const Rule& next, float ratio, const StreamsOf<Compute>& streams,
                       const Piece* pieces, int piece_count, const Control* control, cudaStream_t stream) {
  if (piece_count == 0) return;
  predict_kernel<true><<<piece_count, kThreads, 0, stream>>>(rule, next, ratio, streams, pieces, control);
}

template <typename Rule, typename Compute>
void predict(const Rule& next, float ratio, const StreamsOf<Compute>& streams, const Piece* pieces,
             int piece_count, const Control* control, cudaStream_t stream) {
  if (piece_count == 0) return;
  predict_kernel<false><<<piece_count, kThreads, 0, stream>>>(next, next, ratio, streams, pieces, control);
}

#define TWOBW_KERNELS_FOR(Rule, Compute)                                                                    \
  template void apply(const Rule&, const StreamsOf<Compute>&, const Piece*, int, const Control*,            \
                      cudaStream_t);                                                                        \
  template void apply_and_predict(const Rule&, const Rule&, float, const StreamsOf<Compute>&, const Piece*, \
                                  int, const Control*, cudaStream_t);                                       \
  template void predict(const Rule&, float, const StreamsOf<Compute>&, const Piece*, int, const Control*,   \
                        cudaStream_t);
#define TWOBW_KERNELS(Rule)              \
  TWOBW_KERNELS_FOR(Rule, float)         \
  TWOBW_KERNELS_FOR(Rule, __nv_bfloat16) \
  TWOBW_KERNELS_FOR(Rule, __half)
TWOBW_KERNELS(AdamWRule)
TWOBW_KERNELS(SgdRule)
TWOBW_KERNELS(LionRule)
#undef TWOBW_KERNELS
#undef TWOBW_KERNELS_FOR

void prepare(const double* squared_norm, double clip, Control* control, cudaStream_t stream) {
  prepare_kernel<<<1, 1, 0, stream>>>(squared_norm, clip, control);
}

void count_update(Control* control, cudaStream_t stream) {
  count_kernel<<<1, 1, 0, stream>>>(control);
}

}  // namespace twobw::optim::cuda
