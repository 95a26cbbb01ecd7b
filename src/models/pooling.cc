#include "models/pooling.h"

#include "base/error.h"
#include "models/ops.h"

namespace twobw::models {

std::string_view name(Pooling pooling) {
  switch (pooling) {
    case Pooling::Mean:
      return "mean";
    case Pooling::Cls:
      return "cls";
    case Pooling::Last:
      return "last";
  }
  return "";
}

const std::vector<Pooling>& all_poolings() {
  static const std::vector<Pooling> all = {Pooling::Mean, Pooling::Cls, Pooling::Last};
  return all;
}

at::Tensor pool(Pooling pooling, const at::Tensor& hidden, const at::Tensor& lengths) {
  TWOBW_ASSERT(hidden.dim() == 3 && lengths.numel() == hidden.size(0), "{} lengths of {} sequences",
               lengths.numel(), hidden.size(0));
  if (pooling == Pooling::Cls) return hidden.select(1, 0).contiguous();
  if (pooling == Pooling::Last) return ops::last_token(hidden, lengths);
  const at::Tensor counts = lengths.unsqueeze(1);  // [b, 1]
  const at::Tensor padding = at::arange(hidden.size(1), lengths.options()).ge(counts).unsqueeze(2);
  // What padding holds may be anything, not a number even.
  return hidden.masked_fill(padding, 0).sum(1) / counts;
}

}  // namespace twobw::models
