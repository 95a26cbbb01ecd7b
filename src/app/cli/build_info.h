// Versions of the program and of the libraries that it was built with, without loading them.
#pragma once

#include <string>
#include <string_view>

namespace twobw::cli {

struct BuildInfo {
  std::string_view program;
  std::string_view revision;  // of git, "-dirty" with changed files; "unknown" outside of a git tree
  // Empty: not in this build.
  std::string_view libtorch, libtorch_folder;
  std::string_view cuda;  // the toolkit's version, for training on GPUs
  std::string_view nccl;
  std::string_view gloo, sentencepiece, utf8proc, zlib, zstd;  // "ON", or empty
};

extern const BuildInfo kBuild;

// The text of `twobw --version`, on several lines.
std::string describe(const BuildInfo& build);

}  // namespace twobw::cli
