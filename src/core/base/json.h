// JSON: pretty-printed, read with errors that name the field, and read from untrusted files.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace twobw {

using Json = nlohmann::ordered_json;

// Indented; values that fit a line stay on one. Ends with a newline. Numbers read back to the same value.
std::string pretty(const Json& value);

// A value of a document, with its path for messages. It refers to the document, which must outlive it. Every
// reader throws InputError if the value has another type.
class JsonField {
 public:
  JsonField operator[](const std::string& key) const;              // required
  std::optional<JsonField> find(const std::string& key) const;     // null: missing or null
  std::vector<JsonField> items() const;                            // of a list
  std::vector<std::pair<std::string, JsonField>> entries() const;  // of an object
  const nlohmann::json& object() const;
  const nlohmann::json& list() const;

  bool is_text() const { return value_->is_string(); }
  bool is_list() const { return value_->is_array(); }
  std::string text() const;
  std::string type() const { return (*this)["type"].text(); }
  bool flag() const;
  bool flag(const std::string& key, bool otherwise) const;  // `otherwise`: missing or null
  double number() const;                                    // finite, at least 0
  int whole() const;                                        // at least 0
  int id() const;                                           // below the number of bytes in the document
  int check_id(const nlohmann::json& value, std::string_view token) const;

  // Throws for keys other than these.
  void allow(std::span<const std::string_view> keys) const;
  // Throws "DOCUMENT has PATH = VALUE; it must MUST".
  [[noreturn]] void refuse(std::string_view must) const;
  const std::string& document() const;

 private:
  friend class JsonDocument;
  struct Origin {
    std::string name, advice;
    std::size_t bytes;
  };
  JsonField(const nlohmann::json& value, const Origin& origin, std::string path)
      : value_(&value), origin_(&origin), path_(std::move(path)) {}
  std::string path_to(const std::string& step) const;
  JsonField child(const nlohmann::json& value, const std::string& step) const;

  const nlohmann::json* value_;
  const Origin* origin_;
  std::string path_;
};

class JsonDocument {
 public:
  // `name` begins messages: "profile 'p.json'"; `advice` ends the sentence about a missing field. Throws
  // InputError.
  JsonDocument(const std::string& text, const std::string& name, const std::string& advice = "");

  JsonField root() const { return {*value_, *origin_, ""}; }

 private:
  std::unique_ptr<const nlohmann::json> value_;
  std::unique_ptr<const JsonField::Origin> origin_;
};

// Untrusted JSON: duplicate keys and deep nesting are refused, so that the value is unambiguous and takes no
// more memory than a file of its size should.
struct UntrustedJson {
  nlohmann::json value;
  std::string problem;  // "is not JSON", "has 'layers' twice", "is nested too deep"; empty if valid
};

inline constexpr const char* kNotJson = "is not JSON";

// The problem that parse_untrusted would find, without building the value.
std::string find_json_problem(std::string_view text, int deepest);

// At most `deepest` objects and lists inside each other.
UntrustedJson parse_untrusted(std::string_view text, int deepest);

// A name from such a file, for messages: on one line, truncated.
std::string shown_name(std::string_view name);

}  // namespace twobw
