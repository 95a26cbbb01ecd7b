// model.vocab of a configuration that does not set it.
#pragma once

#include "core/base/config.h"

namespace twobw::cli {

// A run that continues has the one that it had. Else it is the largest that data and tokenizer have: of token
// files as `twobw prepare` recorded it, of data.tokenizer where that is not bytes, and of texts as bytes. It
// stays as it is for synthetic data and for token files without a record. Throws InputError for a tokenizer
// that cannot be read.
void set_default_vocab(Config& config);

}  // namespace twobw::cli
