#include "core/base/model_head.h"

namespace twobw {

std::string_view name(ModelHead head) {
  switch (head) {
    case ModelHead::Auto:
      return "auto";
    case ModelHead::CausalLm:
      return "causal_lm";
    case ModelHead::MaskedLm:
      return "masked_lm";
    case ModelHead::Classification:
      return "classification";
    case ModelHead::Regression:
      return "regression";
  }
  return "";
}

const std::vector<ModelHead>& all_heads() {
  static const std::vector<ModelHead> heads = {ModelHead::Auto, ModelHead::CausalLm, ModelHead::MaskedLm,
                                               ModelHead::Classification, ModelHead::Regression};
  return heads;
}

}  // namespace twobw
