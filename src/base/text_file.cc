#include "base/text_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "base/error.h"
#include "base/untrusted_json.h"

namespace twobw {

YAML::Node parse_yaml(const std::string& text, const std::string& name, bool with_line) {
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(text);
    if (documents.size() > 1)
      fail_input("{} holds {} YAML documents; it must hold one", name, documents.size());
    return documents.empty() ? YAML::Node() : documents[0];
  } catch (const YAML::Exception& error) {
    const std::string line = with_line ? fmt::format(":{}", error.mark.line + 1) : "";
    fail_input("{}{} is not valid YAML: {}", name, line, shown_name(error.msg));
  }
}

std::string read_text(std::string_view what, const std::string& path) {
  auto refuse_file = [&](const char* why) { fail_input("{} '{}' cannot be read: {}", what, path, why); };
  if (std::filesystem::is_directory(path)) refuse_file("it is a folder");
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file) refuse_file(std::strerror(errno));
  if (file.peek() != std::ifstream::traits_type::eof()) text << file.rdbuf();
  if (file.bad()) refuse_file(std::strerror(errno));
  return text.str();
}

void write_text(const std::string& path, const std::string& text) {
  errno = 0;
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) fail_input("'{}' cannot be written: {}", path, std::strerror(errno));
}

void check_writable(std::string_view option, const std::string& path) {
  const bool existed = std::filesystem::exists(path);
  if (!std::ofstream(path, std::ios::app)) fail_input("{} is '{}', which cannot be written", option, path);
  if (!existed) std::filesystem::remove(path);
}

}  // namespace twobw
