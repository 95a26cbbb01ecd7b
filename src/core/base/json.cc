#include "core/base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "core/base/error.h"

namespace twobw {
namespace {

constexpr std::size_t kColumns = 110;
constexpr int kDeepest = 32;
constexpr const char* kNotJson = "is not JSON";

// Whole numbers without a fraction, as people write them; they read back to the same value all the same.
std::string scalar(const Json& value) {
  constexpr double kExact = 1e15;
  if (!value.is_number_float()) return value.dump();
  const double number = value.get<double>();
  const bool whole = number == std::floor(number) && std::abs(number) < kExact;
  return whole ? fmt::format("{:.0f}", number) : value.dump();
}

std::string key_of(const Json& parent, const Json::const_iterator& item) {
  return parent.is_object() ? Json(item.key()).dump() + ": " : "";
}

std::string one_line(const Json& value) {
  if (value.is_primitive()) return scalar(value);
  std::string out;
  for (auto item = value.begin(); item != value.end(); ++item) {
    out += (out.empty() ? "" : ", ") + key_of(value, item) + one_line(*item);
  }
  return value.is_array() ? "[" + out + "]" : "{" + out + "}";
}

// Lists of plain values fill their lines; everything else has a line each.
std::string write(const Json& value, std::size_t indent, std::size_t used) {
  std::string line = one_line(value);
  if (value.is_primitive() || value.empty() || used + line.size() <= kColumns) return line;
  const bool plain =
      value.is_array() && std::ranges::none_of(value, [](const Json& item) { return item.is_structured(); });
  const std::string blank(indent + 2, ' ');
  std::string out(1, value.is_array() ? '[' : '{');
  std::size_t column = kColumns;
  for (auto item = value.begin(); item != value.end(); ++item) {
    const std::string key = key_of(value, item);
    const std::string text = key + write(*item, indent + 2, indent + 2 + key.size());
    if (item != value.begin()) out += ',';
    if (plain && column + text.size() + 2 < kColumns) {
      out += ' ' + text;
      column += text.size() + 2;
    } else {
      out += fmt::format("\n{}{}", blank, text);
      column = blank.size() + text.size();
    }
  }
  return out + '\n' + std::string(indent, ' ') + (value.is_array() ? ']' : '}');
}

// Walks through the text and keeps nothing but the names of the objects that are open. Stops at the first
// problem.
class JsonWalk final : public nlohmann::json::json_sax_t {
 public:
  explicit JsonWalk(int deepest) : deepest_(static_cast<std::size_t>(deepest)) {}

  const std::string& problem() const { return problem_; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    if (!open_.back().insert(name).second) problem_ = fmt::format("has '{}' twice", shown_name(name));
    return problem_.empty();
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override {
    problem_ = "is not JSON";
    return false;
  }

 private:
  bool open() {
    if (open_.size() == deepest_) problem_ = "is nested too deep";
    open_.emplace_back();
    return problem_.empty();
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  std::size_t deepest_;
  std::vector<std::set<std::string>> open_;  // a list has no names
  std::string problem_;
};

}  // namespace

std::string pretty(const Json& value) {
  return write(value, 0, value.is_structured() ? kColumns : 0) + '\n';
}

JsonField::JsonField(Json value, std::string document, std::string path)
    : value_(std::move(value)), document_(std::move(document)), path_(std::move(path)) {}

JsonField JsonField::parse(const std::string& text, const std::string& document) {
  const std::string problem = find_json_problem(text, kDeepest);
  if (!problem.empty() && problem != kNotJson) fail_input("{} {}", document, problem);
  try {
    return {Json::parse(text), document, ""};
  } catch (const Json::parse_error& error) {
    const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(error.byte, text.size()));
    fail_input("{} {}: line {} cannot be read", document, kNotJson, 1 + std::count(text.begin(), end, '\n'));
  } catch (const Json::out_of_range&) {
    fail_input("{} {}: a number in it is too large", document, kNotJson);
  }
}

JsonField JsonField::child(Json value, const std::string& step) const {
  const bool dot = !path_.empty() && !step.starts_with('[');
  return {std::move(value), document_, path_ + (dot ? "." : "") + shown_name(step)};
}

JsonField JsonField::operator[](const std::string& key) const {
  if (!value_.is_object()) refuse("be an object with the field " + key);
  if (!value_.contains(key)) {
    fail_input("{} lacks the field {}; `twobw profile` writes all of them", document_,
               path_.empty() ? key : path_ + "." + key);
  }
  return child(value_[key], key);
}

std::vector<JsonField> JsonField::items() const {
  if (!value_.is_array() || value_.empty()) refuse("be a list, not empty");
  std::vector<JsonField> all;
  for (std::size_t i = 0; i < value_.size(); ++i) all.push_back(child(value_[i], fmt::format("[{}]", i)));
  return all;
}

std::vector<std::pair<std::string, JsonField>> JsonField::entries() const {
  if (!value_.is_object()) refuse("be an object");
  std::vector<std::pair<std::string, JsonField>> all;
  for (const auto& [key, value] : value_.items()) all.emplace_back(key, child(value, key));
  return all;
}

std::string JsonField::text() const {
  if (!value_.is_string()) refuse("be text");
  return value_.get<std::string>();
}

bool JsonField::flag() const {
  if (!value_.is_boolean()) refuse("be true or false");
  return value_.get<bool>();
}

double JsonField::number() const {
  const double number = value_.is_number() ? value_.get<double>() : -1;
  if (!std::isfinite(number) || number < 0) refuse("be a number of at least 0");
  return number;
}

int JsonField::whole() const {
  const double value = number();
  if (value != std::floor(value) || value > std::numeric_limits<int>::max()) refuse("be a whole number");
  return static_cast<int>(value);
}

void JsonField::refuse(const std::string& must) const {
  std::string shown = value_.dump();
  if (shown.size() > 60) shown = shown.substr(0, 57) + "...";
  if (path_.empty()) fail_input("{} holds {}; it must {}", document_, shown, must);
  fail_input("{} has {} = {}; it must {}", document_, path_, shown, must);
}

std::string find_json_problem(std::string_view text, int deepest) {
  JsonWalk walk(deepest);
  return nlohmann::json::sax_parse(text, &walk) ? "" : walk.problem();
}

UntrustedJson parse_untrusted(std::string_view text, int deepest) {
  UntrustedJson result{.value = {}, .problem = find_json_problem(text, deepest)};
  if (result.problem.empty()) result.value = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  return result;
}

std::string shown_name(std::string_view name) {
  constexpr std::size_t kLongest = 120;
  std::string shown(name.substr(0, kLongest));
  std::ranges::replace_if(
      shown, [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
  return name.size() > kLongest ? shown + "..." : shown;
}

}  // namespace twobw
