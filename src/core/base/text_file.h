// Files that people write: read whole, parsed, and refused with one sentence.
#pragma once

#include <yaml-cpp/yaml.h>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace twobw {

constexpr std::uintmax_t kLargestConfig = 16 << 20;  // config.json and similar files
constexpr std::uintmax_t kLargestTable = 512 << 20;  // tokenizers
constexpr std::uintmax_t kAnySize = std::numeric_limits<std::uintmax_t>::max();

// The text of a file or a pipe, of at most `most` bytes. `what` begins the sentence of the InputError:
// "configuration file", "profile".
std::string read_text(std::string_view what, const std::string& path, std::uintmax_t most = kLargestTable);

// Reads a file of a model's folder, which may be hostile: it must be a regular file.
std::string read_model_text(std::string_view what, const std::string& path, std::uintmax_t most);

// Replaces the file. Throws RunError.
void write_text(const std::string& path, const std::string& text);

// Checks early that a file can be written. Throws InputError, in which `option` names the path.
void check_writable(std::string_view option, const std::string& path);

// The only document in the text; `name` names the text in messages, with the line where asked. Empty
// text is a null node. Throws InputError.
YAML::Node parse_yaml(const std::string& text, const std::string& name, bool with_line);

}  // namespace twobw
