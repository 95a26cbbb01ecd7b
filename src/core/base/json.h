// JSON: pretty-printed, read with errors that name the field, and read from untrusted files.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace twobw {

using Json = nlohmann::ordered_json;

// Indented; values that fit a line stay on one. Ends with a newline. Numbers read back to the same value.
std::string pretty(const Json& value);

// A field of a document, with its path. Every reader throws InputError if the field is missing or of another
// type.
class JsonField {
 public:
  // `document` names the document in messages: "profile 'p.json'".
  static JsonField parse(const std::string& text, const std::string& document);

  JsonField operator[](const std::string& key) const;
  std::vector<JsonField> items() const;                            // of a list
  std::vector<std::pair<std::string, JsonField>> entries() const;  // of an object

  std::string text() const;
  bool flag() const;
  double number() const;  // finite, at least 0
  int whole() const;      // at least 0

  // "DOCUMENT has PATH = VALUE; it must ALLOWED".
  [[noreturn]] void refuse(const std::string& must) const;

 private:
  JsonField(Json value, std::string document, std::string path);
  JsonField child(Json value, const std::string& step) const;

  Json value_;
  std::string document_, path_;
};

// JSON from elsewhere: duplicate keys and deep nesting are refused, so that the value is unambiguous and
// takes no more memory than a file of its size should.
struct UntrustedJson {
  nlohmann::json value;
  std::string problem;  // "is not JSON", "has 'layers' twice", "is nested too deep"; empty if valid
};

// The problem that parse_untrusted would find, without building the value.
std::string find_json_problem(std::string_view text, int deepest);

// At most `deepest` objects and lists inside each other.
UntrustedJson parse_untrusted(std::string_view text, int deepest);

// A name from such a file, for messages: on one line, truncated.
std::string shown_name(std::string_view name);

}  // namespace twobw
