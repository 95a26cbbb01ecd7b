// Settings, checks and saved state of prepare(). An interrupted run leaves its state next to the unfinished
// files, so that the same command continues after the last finished input and produces the same bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "text/corpus/prepare.h"

namespace twobw::corpus {

struct PrepareState {
  Json settings;                // everything except the inputs that affects the bytes
  std::vector<Input> finished;  // with sizes and modification times
  std::int64_t documents = 0;   // in the finished inputs, including empty ones
  std::int64_t empty = 0;       // documents without tokens
  WritePosition train, validation;
  bool publishing = false;  // all inputs are finished, and files are being renamed
};

std::string state_path(const std::string& out);

void save_state(const std::string& out, const PrepareState& state);

// Returns nothing if no run was interrupted. InputError if its settings or finished inputs differ: continuing
// would mix two corpora.
std::optional<PrepareState> load_state(const std::string& out, const Json& settings,
                                       const std::vector<Input>& inputs);

// Hash of the contents of the tokenizer's files.
std::string tokenizer_fingerprint(const std::string& path);

// End-of-text token, if it is requested and exists. Throws InputError for an unknown name.
std::optional<tokenizer::Id> find_end_of_text(const PrepareOptions& options,
                                              const tokenizer::Tokenizer& tokenizer);

// Creates the output folder. InputError if an output is also an input, or belongs to another corpus.
void check_out(const PrepareOptions& options, const std::vector<Input>& inputs);

// Everything except the inputs that affects the bytes.
Json describe_settings(const PrepareOptions& options, const tokenizer::Tokenizer& tokenizer, TokenType type,
                       std::optional<tokenizer::Id> end_of_text);

// Contents of OUT.json.
Json describe_result(const PrepareState& state, bool validation);

}  // namespace twobw::corpus
