// Finds one field of a line of JSON without building the rest.
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "text/corpus/documents.h"

namespace twobw::corpus {
namespace {

using Json = nlohmann::json;

class FieldFinder : public nlohmann::json_sax<Json> {
 public:
  explicit FieldFinder(const std::string& field) : field_(field) {}

  bool null() override { return other(); }
  bool boolean(bool) override { return other(); }
  bool number_integer(number_integer_t) override { return other(); }
  bool number_unsigned(number_unsigned_t) override { return other(); }
  bool number_float(number_float_t, const string_t&) override { return other(); }
  bool binary(binary_t&) override { return other(); }
  bool string(string_t& value) override {
    if (!std::exchange(wanted_, false)) return other();
    found_ = true;
    text_ = std::move(value);
    return true;
  }
  bool start_object(std::size_t) override {
    other();
    is_object_ = is_object_ || depth_ == 0;
    ++depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    other();
    ++depth_;
    return true;
  }
  bool end_object() override { return --depth_ >= 0; }
  bool end_array() override { return --depth_ >= 0; }
  bool key(string_t& name) override {
    wanted_ = depth_ == 1 && name == field_;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    error_at_ = position;
    return false;
  }

  std::optional<std::size_t> error_at_;
  bool is_object_ = false;
  bool found_ = false, other_type_ = false;
  std::string text_;

 private:
  bool other() {
    if (std::exchange(wanted_, false)) other_type_ = true;
    return true;
  }

  const std::string& field_;
  int depth_ = 0;
  bool wanted_ = false;  // the next value
};

}  // namespace

std::string field_text(std::string_view line, const std::string& field, const std::string& place) {
  FieldFinder finder(field);
  Json::sax_parse(line.begin(), line.end(), &finder);
  if (finder.error_at_) {
    fail_input("'{}' is not valid JSON in UTF-8 (at byte {}); every line must be one object", place,
               *finder.error_at_);
  }
  if (!finder.is_object_) fail_input("'{}' is no JSON object; every line must be one", place);
  if (finder.other_type_) fail_input("'{}': field '{}' must be a text", place, field);
  if (!finder.found_) fail_input("'{}' has no field '{}'; --field names the one with the text", place, field);
  return std::move(finder.text_);
}

}  // namespace twobw::corpus
