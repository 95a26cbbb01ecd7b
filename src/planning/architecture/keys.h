// Configuration keys that only some families have.
#pragma once

#include <initializer_list>
#include <string_view>

#include "core/base/config.h"

namespace twobw::architecture {

// Throws InputError for the first such key that is set and not among `own`, those of config.family, by their
// names under model.
void refuse_foreign_keys(const ModelConfig& config, std::initializer_list<std::string_view> own);

}  // namespace twobw::architecture
