// data.tokenizer of a configuration that does not set it.
#pragma once

#include <optional>

#include "core/base/config.h"

namespace twobw::corpus {

// The configuration of the run that is to continue; nothing: a new one begins. Throws InputError where its
// config.yaml cannot be read.
std::optional<Config> config_of_run(const Config& config);

// A run that goes on has the one that it had. Else it is that in the folder of model.from, where there is
// one; but where the data need none, being token files or made up, only if it can be read and model.vocab has
// room for its tokens. Else it stays as it is. Throws InputError where the run's config.yaml cannot be read.
void set_default_tokenizer(Config& config);

}  // namespace twobw::corpus
