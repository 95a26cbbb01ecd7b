// config.json of a Hugging Face model. Missing and null keys have their defaults; unsupported values are
// rejected with key, value and the allowed values.
#pragma once

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace twobw::architecture::huggingface {

class ConfigFile {
 public:
  // Throws InputError if it is unreadable or not a JSON object.
  explicit ConfigFile(const std::string& path);
  // From its text; `path` names it in messages.
  ConfigFile(std::string_view text, const std::string& path);

  const std::string& path() const { return path_; }
  bool has(const std::string& key) const { return find(key) != nullptr; }
  // True if the key is null explicitly, for keys with another default.
  bool is_null(const std::string& key) const;
  std::size_t size() const { return value_.size(); }  // keys

  // A key without a default is required.
  int whole(const std::string& key, int most, std::optional<int> fallback = {}) const;
  double number(const std::string& key, std::optional<double> fallback = {}) const;
  bool flag(const std::string& key, bool fallback) const;
  std::string word(const std::string& key, const std::string& fallback) const;
  std::vector<std::string> words(const std::string& key) const;  // empty: no such key
  // Nested object, named by its path in messages; nothing: no such key.
  std::optional<ConfigFile> part(const std::string& key) const;

  // Refuse all values but one, which is also the default.
  void expect(const std::string& key, bool only) const;
  void expect(const std::string& key, double only) const;
  void expect_word(const std::string& key, const std::vector<std::string>& allowed) const;
  // Refuses `divisor`, the value or default of the key, unless it divides `size`.
  void expect_divides(const std::string& key, int divisor, const std::string& multiple, int size) const;
  void expect_none(const std::string& key, std::string_view why) const;

  // Throws "'PATH' has KEY = VALUE; it must MUST".
  [[noreturn]] void refuse(const std::string& key, std::string_view must) const;

 private:
  ConfigFile(nlohmann::json value, std::string path, std::string prefix);
  const nlohmann::json* find(const std::string& key) const;  // null: missing, or null
  [[noreturn]] void miss(const std::string& key) const;

  nlohmann::json value_;
  std::string path_;
  std::string prefix_;  // "rope_scaling."
};

}  // namespace twobw::architecture::huggingface
