// Digests of a configuration and of the files that it names. The processes of a run compare theirs before it
// begins, and a checkpoint records those of the data.
#pragma once

#include <string>
#include <vector>

#include "core/base/config.h"
#include "engine/checkpoint/formats/manifest.h"
#include "engine/control/agreement.h"

namespace twobw::train {

// Before the processes join: makes the token files of texts (text/corpus/configured_tokens.h), one process of
// each machine while its others wait, so that none is missed within network.join_timeout. Throws InputError,
// RunError.
void tokenize_texts(const Config& config);

// The command, every key of the configuration, and digests of the files that every process reads for itself:
// data, the tokenizer, the model to start from; large ones are sampled. A file that cannot be read is a fact
// too.
control::Facts facts_of(const std::string& command, const Config& config);

// Records the files of data.train, data.validation and data.tokenizer that are not missing.
std::vector<checkpoint::DataFile> record_data(const Config& config);

// A sentence for each file that has another size or checksum than was recorded. A file that is missing has
// not changed: a run does without its tokenizer, and names other data when it opens them.
std::vector<std::string> find_changes(const std::vector<checkpoint::DataFile>& recorded);

}  // namespace twobw::train
