// Helpers of the tests of the configuration.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/base/config.h"
#include "core/base/error.h"
#include "tests/support/refusal.h"

namespace twobw {

// Reads `text` as the file x.yaml.
inline Config load(const std::string& text, const std::vector<std::string>& overrides = {}) {
  const auto old = std::filesystem::current_path();
  const auto folder =
      std::filesystem::path(testing::TempDir()) / ("twobw_config_test_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  std::filesystem::current_path(folder);
  std::ofstream("x.yaml") << text;
  struct Cleanup {
    std::filesystem::path old, folder;
    ~Cleanup() {
      std::filesystem::current_path(old);
      std::filesystem::remove_all(folder);
    }
  } cleanup{old, folder};
  return load_config("x.yaml", overrides);
}

inline std::string refused(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return refusal_of([&] { load(text, overrides); });
}

inline std::string override_refused(const std::string& text) {
  return refusal_of([&] { load_config("", {text}); });
}

}  // namespace twobw
