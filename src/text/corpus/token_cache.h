// Token files of the texts that a configuration names, made at the first use and kept for later runs:
// token-cache/NAME-HASH/ beside the run's folder. A changed text replaces its former token files.
#pragma once

#include <string>

#include "core/base/config.h"

namespace twobw::corpus {

// Whether data.tokenizer turns the path's text into token files. With `bytes` a text needs none, and texts
// with a class or a number are encoded in memory.
bool is_tokenized(const std::string& path, const Config& config);

// With the cached token files in the place of such texts; missing ones are made as `twobw prepare` does, with
// progress on standard error, by one process of the machine while others wait. `key` names the
// configuration's key in messages. Throws InputError and RunError.
Corpora with_token_files(const std::string& key, const Corpora& corpora, const Config& config);
// Both data.train and data.validation.
Config with_token_files(Config config);

}  // namespace twobw::corpus
