// CUDA kernels of the optimizers. An update of a stage is one launch over its flat buffer, which reads the
// clipping factor, the decision to skip and the number of updates from device memory.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "core/base/loss_scaling.h"
#include "engine/optim/rules.h"

namespace twobw::optim::cuda {

// A range of parameters with the same learning rate and weight decay: the work of one thread block.
struct Piece {
  std::int64_t offset = 0;
  std::int32_t count = 0;
  float decay = 0;
  float rate = 1;  // factor of the learning rate
};
inline constexpr int kPieceSize = 8192;
// [offset, offset + count) in pieces of at most kPieceSize.
void add_pieces(std::vector<Piece>& pieces, std::int64_t offset, std::int64_t count, float decay,
                float rate = 1);

// In device memory; prepare() and count_update() write it.
struct Control {
  float gradient_scale = 1;  // from clipping, over the loss scale
  std::int32_t skip = 0;
  std::int32_t applied = 0;  // updates that were not skipped
  float last_scale = 1;      // clipping factor of the last of them, for predictions
  double squared_norm = 0;   // of the gradient without its loss scale
  float loss_scale = 1;      // of the last prepared update
  LossScaling scaling = {};
};

// For every rule, with the values that do not depend on a piece or an update (rule_for() of optimizer.h), and
// Compute float, __nv_bfloat16 and __half.
template <typename Rule, typename Compute>
void apply(const Rule& rule, const StreamsOf<Compute>& streams, const Piece* pieces, int piece_count,
           const Control* control, cudaStream_t stream);

// An update and the prediction of the following one in a single pass, by `next` from `ratio` times
// streams.partial_gradient.
template <typename Rule, typename Compute>
void apply_and_predict(const Rule& rule, const Rule& next, float ratio, const StreamsOf<Compute>& streams,
                       const Piece* pieces, int piece_count, const Control* control, cudaStream_t stream);
// The prediction alone.
template <typename Rule, typename Compute>
void predict(const Rule& next, float ratio, const StreamsOf<Compute>& streams, const Piece* pieces,
             int piece_count, const Control* control, cudaStream_t stream);

// Sets the next update's clipping factor and skip from the sum over all stages.
void prepare(const double* squared_norm, double clip, Control* control, cudaStream_t stream);
// After apply(): counts the update unless it was skipped, and adjusts the loss scale.
void count_update(Control* control, cudaStream_t stream);

// Squared norms of gradients, some numbers a parameter (norm_piece in engine/optim/kernels.h), so that their
// sum does not depend on how stages divide parameters, and replicas their pieces.

// Squared norms: norms[n] of the pieces [first[n], first[n + 1]), in an order that depends on the pieces
// only. `partial` has space for one double for each piece.
void squared_norms(const float* values, const Piece* pieces, int piece_count, const int* first,
                   int norm_count, double* partial, double* norms, cudaStream_t stream);

// Sum of `count` norms, in an order that depends on `count` only.
void sum_norms(const double* norms, int count, double* sum, cudaStream_t stream);

}  // namespace twobw::optim::cuda
