// What all processes of a run must have alike before it begins.
#pragma once

#include <string>

#include "core/base/config.h"
#include "engine/control/agreement.h"

namespace twobw::train {

// Before the processes join: makes the token files of texts (text/corpus/configured_tokens.h), one process of
// each machine while its others wait, so that none is missed within network.arrival. Throws InputError,
// RunError.
void tokenize_texts(const Config& config);

// The command, every key of the configuration, and what is in the files that every process reads for itself:
// data, the tokenizer, the model to start from; of large ones in parts of them. What cannot be read is a fact
// too.
control::Facts facts_of(const std::string& command, const Config& config);

}  // namespace twobw::train
