// A map of a YAML file whose keys are known beforehand. Every complaint is one sentence that names the
// key, its value, file and line, and what is allowed.
#pragma once

#include <yaml-cpp/yaml.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace twobw {

// What a number must be: how it is read, whether a value will do, and the end of "it must be ...".
struct Quantity {
  std::function<std::optional<double>(std::string_view)> parse;
  std::function<bool(double)> holds;
  std::string allowed;
};

class Fields {
 public:
  // `path` is where the map hangs: "", "network", "nodes[2].link".
  Fields(const YAML::Node& map, std::string file, std::string path);

  // Refuses keys other than these, and those given twice.
  void only(const std::vector<std::string>& known) const;

  bool has(const std::string& key) const { return node(key).IsDefined(); }
  YAML::Node node(const std::string& key) const { return map_[key]; }
  std::vector<std::string> keys() const;
  std::string path_of(const std::string& key) const;

  // Refuses a key that is missing, without a fallback, or of another kind.
  double number(const std::string& key, const Quantity& quantity, std::optional<double> fallback = {}) const;
  std::string text(const std::string& key, const std::string& fallback) const;
  bool flag(const std::string& key, bool fallback) const;
  Fields map(const std::string& key) const;
  // The maps of a list, in order.
  std::vector<Fields> maps(const std::string& key) const;

  // "KEY is VALUE at FILE:LINE; it must ALLOWED", or "KEY is missing in FILE; it must ALLOWED".
  [[noreturn]] void refuse(const std::string& key, std::string_view must) const;

 private:
  YAML::Node map_;
  std::string file_, path_;
};

}  // namespace twobw
