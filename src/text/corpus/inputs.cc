#include "text/corpus/inputs.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "core/base/error.h"

namespace twobw::corpus {
namespace {

namespace fs = std::filesystem;

Format chosen_format(const std::string& path, const std::string& format) {
  if (format == "auto") return format_of(path);
  for (const Format known : {Format::kText, Format::kJsonl, Format::kTsv}) {
    if (format_name(known) == format) return known;
  }
  fail_input("--format is '{}'; it must be auto, text, jsonl or tsv", format);
}

Input look_at(const std::string& path, const std::string& format) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) {
    fail_input("input '{}' cannot be read: {}", path, std::strerror(errno));
  }
  if (!S_ISREG(status.st_mode)) fail_input("input '{}' must be a file or a folder", path);
  constexpr std::int64_t kSecond = 1'000'000'000;
  return {path, chosen_format(path, format), status.st_size,
          status.st_mtim.tv_sec * kSecond + status.st_mtim.tv_nsec};
}

// Links to folders are not followed: they may lead in circles.
std::vector<std::string> files_below(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  fs::recursive_directory_iterator at(folder, error);
  for (; !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
    const bool hidden = at->path().filename().string().starts_with(".");
    if (hidden && at->is_directory()) at.disable_recursion_pending();
    if (!hidden && at->is_regular_file()) paths.push_back(at->path().string());
  }
  if (error) fail_input("input '{}' cannot be read: {}", folder, error.message());
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

Format format_of(const std::string& path) {
  fs::path name = fs::path(path).filename();
  if (name.extension() == ".gz" || name.extension() == ".zst") name = name.stem();
  const std::string ending = name.extension().string();
  if (ending == ".jsonl" || ending == ".ndjson" || ending == ".json") return Format::kJsonl;
  return ending == ".tsv" ? Format::kTsv : Format::kText;
}

std::string format_name(Format format) {
  switch (format) {
    case Format::kText:
      return "text";
    case Format::kJsonl:
      return "jsonl";
    case Format::kTsv:
      return "tsv";
  }
  return "";
}

std::vector<Input> list_inputs(const std::vector<std::string>& paths, const std::string& format) {
  std::vector<Input> inputs;
  for (const std::string& path : paths) {
    if (!fs::is_directory(path)) {
      inputs.push_back(look_at(path, format));
      continue;
    }
    const std::vector<std::string> files = files_below(path);
    if (files.empty()) fail_input("input folder '{}' holds no files", path);
    for (const std::string& file : files) inputs.push_back(look_at(file, format));
  }
  return inputs;
}

}  // namespace twobw::corpus
