// Digests of a configuration and of the files that it names. The processes of a run compare theirs before it
// begins, and a checkpoint records those of the data.
#pragma once

#include <string>
#include <vector>

#include "core/base/config.h"
#include "engine/checkpoint/formats/manifest.h"
#include "engine/control/agreement.h"

namespace twobw::train {

// Called before the processes join: makes the token files of texts (text/corpus/configured_tokens.h), in one
// process per machine while the others wait, so that none exceeds network.join_timeout. Throws InputError,
// RunError.
void tokenize_texts(const Config& config);

// The command, every key of the configuration, and digests of the files that each process reads: data,
// tokenizer, model.from. Large files are sampled. A file that cannot be read is a fact, too.
control::Facts facts_of(const std::string& command, const Config& config);

// Records the files of data.train, data.validation and data.tokenizer that are not missing.
std::vector<checkpoint::DataFile> record_data(const Config& config);

// One sentence per file whose size or checksum differs from the record. Missing files do not count: a run can
// continue without its tokenizer, and opening data reports missing files.
std::vector<std::string> find_changes(const std::vector<checkpoint::DataFile>& recorded);

}  // namespace twobw::train
