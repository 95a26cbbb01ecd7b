// The end of a model that tells something of whole sequences.
#pragma once

#include <ATen/ATen.h>

#include "core/base/kinds.h"
#include "engine/models/layer.h"

namespace twobw::models {

// The loss of classification or regression by hidden [b, w], or where the batch has no labels or values, the
// logits [b, outputs]. `bias` may be undefined.
at::Tensor sequence_head(ModelHead head, const at::Tensor& hidden, const at::Tensor& weight,
                         const at::Tensor& bias, const Pass& pass);

}  // namespace twobw::models
