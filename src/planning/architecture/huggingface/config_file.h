// config.json of a Hugging Face model, key by key. A key that is missing or null has its default; one that
// asks for what is not computed here is refused by its name, its value and what is allowed.
#pragma once

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace twobw::architecture::huggingface {

class ConfigFile {
 public:
  // Throws InputError where it cannot be read, or is no JSON object.
  explicit ConfigFile(const std::string& path);
  // The same of its text; `path` names it in messages.
  ConfigFile(std::string_view text, const std::string& path);

  const std::string& path() const { return path_; }
  bool has(const std::string& key) const { return find(key) != nullptr; }
  // Whether the key is there, and null: for those whose default is something else.
  bool is_null(const std::string& key) const;
  std::size_t size() const { return value_.size(); }  // keys

  // Without a default the key must be there.
  int whole(const std::string& key, int most, std::optional<int> fallback = {}) const;
  double number(const std::string& key, std::optional<double> fallback = {}) const;
  bool flag(const std::string& key, bool fallback) const;
  std::string word(const std::string& key, const std::string& fallback) const;
  std::vector<std::string> words(const std::string& key) const;  // none: no such key
  // An object in the object, with messages that name it by its path; nothing: no such key.
  std::optional<ConfigFile> part(const std::string& key) const;

  // What only one value is computed of, which is also the default.
  void expect(const std::string& key, bool only) const;
  void expect(const std::string& key, double only) const;
  void expect_word(const std::string& key, const std::vector<std::string>& allowed) const;
  // That a size is a multiple of the whole number that the key has, or stands for where it is left out.
  void expect_divides(const std::string& key, int divisor, const std::string& multiple, int size) const;
  void expect_none(const std::string& key, std::string_view why) const;

  // "'PATH' has KEY = VALUE; it must ALLOWED".
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
