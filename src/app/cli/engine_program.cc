#include "app/cli/engine_program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace twobw::cli {
namespace {

namespace fs = std::filesystem;

struct Engine {
  std::string name;
  std::string torch;  // version and variant: 2.11.0+cu130
};

// The engines in the folder, CUDA first. Empty outside the Python package.
std::vector<Engine> packaged_engines(const fs::path& folder) {
  std::vector<Engine> engines;
  for (const char* const name : {"twobw-engine-cuda", "twobw-engine"}) {
    std::ifstream file(folder / (std::string(name) + ".torch"));
    if (std::string torch; file >> torch) engines.push_back({name, torch});
  }
  return engines;
}

// Empty if `package` is not the package torch.
std::string version_of(const fs::path& package) {
  std::ifstream file(package / "version.py");
  static const std::regex kVersion("__version__ = '([^']*)'.*");
  std::smatch match;
  for (std::string line; std::getline(file, line);) {
    if (std::regex_match(line, match, kVersion)) return match[1];
  }
  return {};
}

// LibTorch's libraries, and those of the packages nvidia-* that come with it.
void search_libraries(const fs::path& torch) {
  std::vector<std::string> folders = {torch / "lib"};
  std::error_code none;
  for (const auto& package : fs::directory_iterator(torch.parent_path() / "nvidia", none)) {
    if (fs::is_directory(package.path() / "lib", none)) folders.push_back(package.path() / "lib");
  }
  if (const char* const former = std::getenv("LD_LIBRARY_PATH")) folders.emplace_back(former);
  setenv("LD_LIBRARY_PATH", fmt::format("{}", fmt::join(folders, ":")).c_str(), /*overwrite=*/1);
}

}  // namespace

fs::path choose_engine(const fs::path& folder) {
  const std::vector<Engine> engines = packaged_engines(folder);
  if (engines.empty()) return folder / "twobw-engine";
  const fs::path beside = folder.parent_path().parent_path() / "torch";
  const char* const named = std::getenv("TWOBW_TORCH");
  const fs::path torch = named == nullptr ? beside : fs::path(named);
  const std::string version = version_of(torch);
  std::vector<std::string> wanted;
  for (const Engine& engine : engines) {
    wanted.push_back(engine.torch);
    const bool has_libraries =
        !engine.name.ends_with("-cuda") || fs::exists(torch / "lib" / "libtorch_cuda.so");
    if (engine.torch != version || !has_libraries) continue;
    std::error_code none;
    if (!fs::equivalent(torch, beside, none)) search_libraries(torch);
    return folder / engine.name;
  }
  if (version.empty())
    fail_input(
        "training needs the Python package torch, which is not installed; run `pip install 'twobw[train]'`");
  fail_input(
      "torch {} is installed, but twobw-engine was built with torch {}; install that one, from PyTorch's own "
      "index if PyPI has another variant",
      version, fmt::join(wanted, " or "));
}

}  // namespace twobw::cli
