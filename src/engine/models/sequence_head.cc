#include "engine/models/sequence_head.h"

#include "engine/models/ops.h"

namespace twobw::models {

using at::Tensor;

Tensor sequence_head(ModelHead head, const Tensor& hidden, const Tensor& weight, const Tensor& bias,
                     const MicrobatchContext& pass) {
  const Tensor &labels = pass.batch[Field::Labels], &values = pass.batch[Field::Values];
  const Tensor& scale = pass.batch[Field::LossScale];
  if (head == ModelHead::Classification && labels.defined())
    return ops::head_loss(hidden, weight, bias, labels, scale, pass.room, pass.loss_scale);
  const Tensor outputs = ops::linear(hidden, weight, bias);
  if (head == ModelHead::Regression && values.defined())
    return ops::squared_error(outputs, values, scale, pass.loss_scale);
  return outputs;
}

}  // namespace twobw::models
