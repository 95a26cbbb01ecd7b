// Tokenizer and token files of a configuration. Texts are tokenized at the first use and cached for later
// runs, in token-cache/NAME-HASH/ next to the run's folder.
#pragma once

#include <optional>
#include <string>

#include "core/base/config.h"

namespace twobw::corpus {

// Configuration of the run to resume; nothing: a new run. InputError if its config.yaml cannot be read.
std::optional<Config> config_of_run(const Config& config);

// Sets data.tokenizer to that of the run to resume, or else to the one in the folder of model.from, if any.
// Data without text (token files, synthetic) use the latter only if it can be read and fits model.vocab.
// InputError if config.yaml of the run cannot be read.
void set_default_tokenizer(Config& config);

// True if data.tokenizer turns the text at `path` into token files. With `bytes` a text needs none, and texts
// with a class or number are encoded in memory.
bool is_tokenized(const std::string& path, const Config& config);

// Replaces such texts by their cached token files. Creates missing ones as `twobw prepare` does, with
// progress on standard error, in one process of the machine while others wait. `key` names the configuration
// key in messages. Throws InputError and RunError.
Corpora with_token_files(const std::string& key, const Corpora& corpora, const Config& config);
// Both data.train and data.validation.
Config with_token_files(Config config);

}  // namespace twobw::corpus
