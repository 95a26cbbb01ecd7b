// The files of a tokenizer, under the names that transformers looks for.
#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace twobw::train {

// By name, where each lies. `tokenizer` as in data.tokenizer: bytes has none. Throws InputError where there
// is no such folder or file.
std::map<std::string, std::filesystem::path> tokenizer_files(const std::string& tokenizer);

}  // namespace twobw::train
