// A whole update of a stage on a GPU in one launch over its flat buffer, with what only the device knows
// (clipping factor, whether the update is skipped, how many were made) read from device memory.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "core/base/loss_scaling.h"
#include "engine/optim/kernels_cuda.h"
#include "engine/optim/rules.h"

namespace twobw::optim::cuda {

// A run of parameters that share their learning rate and weight decay; one block of threads works on it.
struct Piece {
  std::int64_t offset = 0;
  std::int32_t count = 0;
  float decay = 0;
  float rate = 1;  // times the learning rate
};
inline constexpr int kPieceSize = 8192;
// [offset, offset + count) in pieces of at most kPieceSize.
void add_pieces(std::vector<Piece>& pieces, std::int64_t offset, std::int64_t count, float decay,
                float rate = 1);

// In device memory; prepare() and count_update() write it.
struct Control {
  float gradient_scale = 1;  // from clipping, over the loss scale
  std::int32_t skip = 0;
  std::int32_t applied = 0;  // updates made so far
  float last_scale = 1;      // from clipping alone, of the last of them, to predict with
  double squared_norm = 0;   // of the gradient without its loss scale
  float loss_scale = 1;      // of the update that was prepared last
  LossScaling scaling = {};
};

struct AdamW {
  float learning_rate, beta1, beta2, eps;
};
struct Sgd {
  float learning_rate, momentum;
};
struct Lion {
  float learning_rate, beta1, beta2;
};

// For Compute float, __nv_bfloat16 and __half.
template <typename Optimizer, typename Compute>
void apply(const Optimizer& optimizer, const StreamsOf<Compute>& streams, const Piece* pieces,
           int piece_count, const Control* control, cudaStream_t stream);

// An update and the prediction of the next one in a single pass: computed with will be what `next` makes of
// `ratio` times the gradients streams.partial_gradient.
template <typename Optimizer, typename Compute>
void apply_and_predict(const Optimizer& optimizer, const Optimizer& next, float ratio,
                       const StreamsOf<Compute>& streams, const Piece* pieces, int piece_count,
                       const Control* control, cudaStream_t stream);
// The prediction alone.
template <typename Optimizer, typename Compute>
void predict(const Optimizer& next, float ratio, const StreamsOf<Compute>& streams, const Piece* pieces,
             int piece_count, const Control* control, cudaStream_t stream);

// From the sum over all stages: clipping factor and skip of the update to come.
void prepare(const double* squared_norm, double clip, Control* control, cudaStream_t stream);
// After apply(): one more was made, unless it was skipped; the loss scale takes note.
void count_update(Control* control, cudaStream_t stream);

// Squared norms of gradients, some numbers a parameter (norm_piece in engine/optim/kernels.h), so that their
// sum rounds alike however parameters are dealt out to stages, and their pieces to replicas.

// norms[n] of the pieces [first[n], first[n + 1]), in an order that depends on them alone. `partial` has room
// for a double a piece.
void squared_norms(const float* values, const Piece* pieces, int piece_count, const int* first,
                   int norm_count, double* partial, double* norms, cudaStream_t stream);

// Their sum, in an order that depends on how many they are alone.
void sum_norms(const double* norms, int count, double* sum, cudaStream_t stream);

}  // namespace twobw::optim::cuda
