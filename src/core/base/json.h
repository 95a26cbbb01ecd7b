// JSON that people read as well: written with short things on one line, read with complaints that name the
// field.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace twobw {

using Json = nlohmann::ordered_json;

// Indented; what fits a line stays on one. Ends with a newline. Numbers read back to the same value.
std::string pretty(const Json& value);

// A field of a document, with the way to it. Every reader throws InputError: the field is missing or of
// another type.
class JsonField {
 public:
  // `document` names the whole in messages: "profile 'p.json'".
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

}  // namespace twobw
