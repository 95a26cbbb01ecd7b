// What a run leaves behind, see docs/files.md.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/config.h"

namespace twobw::train {

class RunDirectory {
 public:
  // Makes the directory. A former run there is moved to the first free NAME.1, NAME.2, ...: nothing
  // is lost. Throws InputError when it cannot be made.
  explicit RunDirectory(const Config& config);

  std::string path(const std::string& file) const { return directory_ + "/" + file; }
  // Where a former run went; empty when there was none.
  const std::string& moved_to() const { return moved_to_; }

  void add_metrics(const nlohmann::ordered_json& line);
  void write_summary(const nlohmann::ordered_json& summary) const;
  void log(const std::string& line);

 private:
  std::string directory_, moved_to_;
  std::ofstream metrics_, log_;
};

}  // namespace twobw::train
