// data.tokenizer of a configuration that does not set it.
#pragma once

#include "base/config.h"

namespace twobw::corpus {

// A run that goes on has the one that it had. Else it is that in the folder of model.from, where there is
// one; but where the data need none, being token files or made up, only if it can be read and model.vocab has
// room for its tokens. Else it stays as it is. Throws InputError where the run's config.yaml cannot be read.
void set_default_tokenizer(Config& config);

}  // namespace twobw::corpus
