#include "planning/architecture/families.h"

#include "core/base/error.h"

namespace twobw::architecture {

#define TWOBW_DECLARE(family) Model describe_##family(const ModelConfig&);
TWOBW_FAMILIES(TWOBW_DECLARE)

namespace {

std::vector<Family>& registry() {
#define TWOBW_ENTRY(family) {#family, describe_##family},
  static std::vector<Family> all = {TWOBW_FAMILIES(TWOBW_ENTRY)};
  return all;
}

}  // namespace

const std::vector<Family>& families() {
  return registry();
}

void add_family(Family family) {
  registry().push_back(std::move(family));
}

Model model_of(const ModelConfig& config) {
  std::string known;
  for (const Family& family : families()) {
    if (family.name == config.family) return family.describe(config);
    known += (known.empty() ? "" : ", ") + family.name;
  }
  fail_input("model.family is '{}'; allowed: {}", config.family, known);
}

ModelHead head_of(const ModelConfig& config) {
  if (config.head != ModelHead::Auto) return config.head;
  return config.family == "bert" ? ModelHead::MaskedLm : ModelHead::CausalLm;
}

}  // namespace twobw::architecture
