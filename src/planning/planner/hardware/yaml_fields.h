// Sizes, rates and times as people write them (24GiB, 25Gbit/s, 5us; plain numbers are bytes, bytes a second,
// seconds), and YAML maps with a fixed set of keys. Every error of a map is one sentence with the key, its
// value, file and line, and the allowed values.
#pragma once

#include <yaml-cpp/yaml.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace twobw {

// Nothing: not a number, or of no known unit. A blank may stand before the unit.
std::optional<double> parse_bytes(std::string_view text);  // B, KB, KiB, MB, ... TiB
std::optional<double> parse_rate(
    std::string_view text);  // the same followed by /s; bit/s, Kbit/s, ... Tbit/s
std::optional<double> parse_seconds(std::string_view text);  // s, ms, us, ns

// In few digits, and reads back to the same value.
std::string print_bytes(double bytes);
std::string print_rate(double bytes_per_second);
std::string print_seconds(double seconds);

// Constraint on a number: its parser, predicate, and the end of "it must be ...".
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
