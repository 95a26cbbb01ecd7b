#include "core/base/text_file.h"

#include <yaml-cpp/eventhandler.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/output_file.h"

namespace twobw {
namespace {

struct Ignored : YAML::EventHandler {
  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
  }
  void OnMapEnd() override {}
};

// Counts up to two: the library reads endless empty documents from some texts, such as ",a".
int count_documents(const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  Ignored ignored;
  int documents = 0;
  while (documents < 2 && parser.HandleNextDocument(ignored)) ++documents;
  return documents;
}

}  // namespace

YAML::Node parse_yaml(const std::string& text, const std::string& name, bool with_line) {
  try {
    const int documents = count_documents(text);
    if (documents > 1) fail_input("{} holds several YAML documents; it must hold one", name);
    return documents == 0 ? YAML::Node() : YAML::Load(text);
  } catch (const YAML::Exception& error) {
    const std::string line = with_line ? fmt::format(":{}", error.mark.line + 1) : "";
    fail_input("{}{} is not valid YAML: {}", name, line, shown_name(error.msg));
  }
}

bool is_file(const std::filesystem::path& path) {
  std::error_code unreadable;
  return std::filesystem::is_regular_file(path, unreadable);
}

std::string read_text(std::string_view what, const std::string& path, std::uintmax_t most) {
  auto refuse_file = [&](std::string_view why) { fail_input("{} '{}' cannot be read: {}", what, path, why); };
  std::error_code unknown;  // opening says why
  if (std::filesystem::is_directory(path, unknown)) refuse_file("it is a folder");
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse_file(std::strerror(errno));
  std::string text;
  for (std::array<char, 1 << 16> block; file.read(block.data(), block.size()), file.gcount() > 0;) {
    text.append(block.data(), static_cast<std::size_t>(file.gcount()));
    if (text.size() > most) refuse_file(fmt::format("it has more than {} bytes", most));
  }
  if (file.bad()) refuse_file(std::strerror(errno));
  return text;
}

std::string read_model_text(std::string_view what, const std::string& path, std::uintmax_t most) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_directory(status)) {
    if (!std::filesystem::is_regular_file(status))
      fail_input("{} '{}' cannot be read: it is not a regular file", what, path);
    const std::uintmax_t size = std::filesystem::file_size(path, error);
    if (!error && size > most)
      fail_input("{} '{}' has {} bytes; it must have at most {}", what, path, size, most);
  }
  return read_text(what, path, most);
}

void write_text(const std::string& path, const std::string& text) {
  OutputFile file(path);
  file.append(text);
  file.close();
}

void check_writable(std::string_view option, const std::string& path) {
  std::error_code unknown;  // also where its folder may not be looked into
  const bool existed = std::filesystem::exists(path, unknown);
  errno = 0;
  if (!std::ofstream(path, std::ios::app))
    fail_input("{} is '{}', which cannot be written: {}", option, path, std::strerror(errno));
  if (!existed) std::filesystem::remove(path, unknown);
}

}  // namespace twobw
