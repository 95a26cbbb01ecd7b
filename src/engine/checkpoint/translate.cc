#include "engine/checkpoint/translate.h"

#include <ATen/core/grad_mode.h>

#include "core/base/error.h"
#include "planning/architecture/huggingface/names.h"

namespace twobw::checkpoint {

using architecture::huggingface::Piece;
using architecture::huggingface::pieces_of;

std::vector<NamedTensor> to_stored(const ModelConfig& model, const architecture::Parameter& parameter,
                                   const at::Tensor& ours) {
  std::vector<NamedTensor> stored;
  std::int64_t row = 0;
  for (const Piece& piece : pieces_of(model, parameter)) {
    const at::Tensor part = ours.narrow(0, row, piece.rows());
    stored.push_back({piece.name, piece.transposed ? part.t() : part});
    row += piece.rows();
  }
  return stored;
}

void from_stored(const ModelConfig& model, const architecture::Parameter& parameter,
                 const std::function<at::Tensor(const std::string& name)>& find, const at::Tensor& target) {
  at::NoGradGuard no_grad;
  std::int64_t row = 0;
  for (const Piece& piece : pieces_of(model, parameter)) {
    const at::Tensor stored = find(piece.name);
    TWOBW_ASSERT(stored.sizes() == at::IntArrayRef(piece.shape), "'{}' has another shape", piece.name);
    target.narrow(0, row, piece.rows()).copy_(piece.transposed ? stored.t() : stored);
    row += piece.rows();
  }
}

}  // namespace twobw::checkpoint
