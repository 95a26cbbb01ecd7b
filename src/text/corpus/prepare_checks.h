// What prepare() asks before it begins, and how it describes what it did.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "text/corpus/inputs.h"
#include "text/corpus/prepare.h"
#include "text/corpus/prepare_state.h"

namespace twobw::corpus {

// Hash of the tokenizer's files, by their contents: the same name may stand for another tokenizer tomorrow.
std::string tokenizer_fingerprint(const std::string& path);

// Nothing where none is to be appended, or where the tokenizer has none and none is named. Throws InputError.
std::optional<tokenizer::Id> find_end_of_text(const PrepareOptions& options,
                                              const tokenizer::Tokenizer& tokenizer);

// Files must not be read and written at once, nor files of two corpora lie side by side under one name. Makes
// the folder. Throws InputError.
void check_out(const PrepareOptions& options, const std::vector<Input>& inputs);

// Everything that the bytes depend on, but for the inputs.
Json describe_settings(const PrepareOptions& options, const tokenizer::Tokenizer& tokenizer, TokenType type,
                       std::optional<tokenizer::Id> end_of_text);

// The text of OUT.json.
Json describe_result(const PrepareState& state, bool validation);

}  // namespace twobw::corpus
