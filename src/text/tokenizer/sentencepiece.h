// A sentencepiece model, by the library. Built without it, opening one throws InputError.
//
// Beyond the library, as transformers does: control and user-defined pieces that are written out in a text
// ("</s>") are recognised; and where the model leaves spaces alone (Llama's does), a text that begins with a
// space gets no other one in front, and what follows a control piece gets none either.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "text/tokenizer/beside.h"
#include "text/tokenizer/tokenizer.h"

namespace twobw::tokenizer {

// `json`: a tokenizer.json of the same model, where one lies beside it. Its added tokens and what it puts
// around a sequence count then.
std::unique_ptr<Tokenizer> load_sentencepiece(const std::string& path, const Beside& beside,
                                              const std::optional<JsonPart>& json = {});

}  // namespace twobw::tokenizer
