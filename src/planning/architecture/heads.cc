#include "planning/architecture/heads.h"

#include "core/base/error.h"

namespace twobw::architecture {

ModelHead head_of(const ModelConfig& config) {
  if (config.head != ModelHead::Auto) return config.head;
  return config.family == "bert" ? ModelHead::MaskedLm : ModelHead::CausalLm;
}

void check_head(const ModelConfig& config, ModelHead language) {
  const ModelHead head = config.head;
  if (head == ModelHead::Auto || head == language || tells_of_sequences(head)) return;
  fail_input("model.head is {}; where model.family is {} it must be {}, classification or regression",
             name(head), config.family, name(language));
}

}  // namespace twobw::architecture
