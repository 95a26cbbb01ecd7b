// Part of a JSON file with its path, for error messages. Vocabularies are large: a part refers to the
// document instead of copying it, and finds keys in logarithmic time (core/base/json.h does neither).
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/tokenizer.h"

namespace twobw::tokenizer {

// Every reader throws InputError if the part has another type. The document must outlive its parts.
class JsonPart {
 public:
  JsonPart operator[](const std::string& key) const;              // required
  std::optional<JsonPart> find(const std::string& key) const;     // nothing: missing or null
  std::vector<JsonPart> items() const;                            // of a list
  std::vector<std::pair<std::string, JsonPart>> entries() const;  // of an object
  const nlohmann::json& object() const;
  const nlohmann::json& list() const;

  bool is_text() const { return value_->is_string(); }
  bool is_list() const { return value_->is_array(); }
  std::string text() const;
  bool flag() const;
  bool flag(const std::string& key, bool otherwise) const;  // `otherwise`: missing or null
  std::int64_t whole() const;                               // at least 0
  Id id() const;                                            // below the number of bytes in the file

  std::string type() const { return (*this)["type"].text(); }

  // Throws for keys other than these.
  void allow(std::span<const std::string_view> keys) const;

  // Throws "DOCUMENT has PATH = VALUE; it must MUST".
  [[noreturn]] void refuse(std::string_view must) const;

  const std::string& document() const;

  // Throws for ids beyond the size of the file: ids are indices of tables.
  Id check_id(const nlohmann::json& value, std::string_view token) const;

 private:
  friend class JsonDocument;
  struct Origin {
    std::string name;
    std::size_t bytes;
  };
  JsonPart(const nlohmann::json& value, const Origin& origin, std::string path)
      : value_(&value), origin_(&origin), path_(std::move(path)) {}
  JsonPart child(const nlohmann::json& value, const std::string& step) const;

  const nlohmann::json* value_;
  const Origin* origin_;
  std::string path_;
};

class JsonDocument {
 public:
  // `name` begins error messages: "tokenizer 'x/tokenizer.json'". Throws InputError.
  JsonDocument(const std::string& text, const std::string& name);

  JsonPart root() const { return {*value_, *origin_, ""}; }

 private:
  std::unique_ptr<const nlohmann::json> value_;
  std::unique_ptr<const JsonPart::Origin> origin_;
};

}  // namespace twobw::tokenizer
