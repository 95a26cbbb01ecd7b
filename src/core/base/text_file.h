// Text files, read whole, parsed, and refused with one sentence.
#pragma once

#include <yaml-cpp/yaml.h>

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <string_view>

namespace twobw {

constexpr std::uintmax_t kLargestConfig = 16 << 20;  // config.json and similar files
constexpr std::uintmax_t kLargestTable = 512 << 20;  // tokenizers
constexpr std::uintmax_t kAnySize = std::numeric_limits<std::uintmax_t>::max();

// True for a regular file, false also if the path cannot be read.
bool is_file(const std::filesystem::path& path);

// Reads a file or a pipe of at most `most` bytes. `what` begins the sentence of the InputError:
// "configuration file", "profile".
std::string read_text(std::string_view what, const std::string& path, std::uintmax_t most = kLargestTable);

// Reads an untrusted file of a model's folder, which must be a regular file.
std::string read_model_text(std::string_view what, const std::string& path, std::uintmax_t most);

// Replaces the file. Throws RunError.
void write_text(const std::string& path, const std::string& text);

// Throws InputError if a file cannot be written, before any work is done for it. `option` names the path in
// the message.
void check_writable(std::string_view option, const std::string& path);

// Parses a text with one document; an empty text is a null node. `name` names the text in messages;
// `with_line`: with the line. Throws InputError.
YAML::Node parse_yaml(const std::string& text, const std::string& name, bool with_line);

}  // namespace twobw
