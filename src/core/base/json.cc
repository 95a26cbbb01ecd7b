#include "core/base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "core/base/error.h"

namespace twobw {
namespace {

constexpr std::size_t kColumns = 110;

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

nlohmann::json parse(const std::string& text, const std::string& name) {
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(error.byte, text.size()));
    fail_input("{} is not JSON in UTF-8: line {} cannot be read", name,
               1 + std::count(text.begin(), end, '\n'));
  } catch (const nlohmann::json::out_of_range&) {
    fail_input("{} is not JSON: a number in it is too large", name);
  }
}

void replace_controls(std::string& text) {
  std::ranges::replace_if(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
}

// Text on one line, truncated between characters.
std::string shorten(std::string text) {
  constexpr std::size_t kShown = 60;
  replace_controls(text);
  if (text.size() <= kShown) return text;
  std::size_t end = kShown;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

// Lists and objects are not printed: they may be deep.
std::string show(const nlohmann::json& value) {
  if (value.is_array()) return "a list";
  if (value.is_object()) return "an object";
  return shorten(value.dump());
}

}  // namespace

std::string pretty(const Json& value) {
  return write(value, 0, value.is_structured() ? kColumns : 0) + '\n';
}

JsonDocument::JsonDocument(const std::string& text, const std::string& name, const std::string& advice)
    : value_(std::make_unique<nlohmann::json>(parse(text, name))),
      origin_(std::make_unique<JsonField::Origin>(JsonField::Origin{name, advice, text.size()})) {}

const std::string& JsonField::document() const {
  return origin_->name;
}

std::string JsonField::path_to(const std::string& step) const {
  const bool dot = !path_.empty() && !step.starts_with('[');
  return path_ + (dot ? "." : "") + shorten(step);
}

JsonField JsonField::child(const nlohmann::json& value, const std::string& step) const {
  return {value, *origin_, path_to(step)};
}

const nlohmann::json& JsonField::object() const {
  if (!value_->is_object()) refuse("be an object");
  return *value_;
}

const nlohmann::json& JsonField::list() const {
  if (!value_->is_array()) refuse("be a list");
  return *value_;
}

std::optional<JsonField> JsonField::find(const std::string& key) const {
  const auto found = object().find(key);
  if (found == value_->end() || found->is_null()) return std::nullopt;
  return child(*found, key);
}

JsonField JsonField::operator[](const std::string& key) const {
  const std::optional<JsonField> found = find(key);
  if (!found) fail_input("{} lacks the field {}{}", origin_->name, path_to(key), origin_->advice);
  return *found;
}

std::vector<JsonField> JsonField::items() const {
  std::vector<JsonField> all;
  for (const nlohmann::json& item : list()) all.push_back(child(item, fmt::format("[{}]", all.size())));
  return all;
}

std::vector<std::pair<std::string, JsonField>> JsonField::entries() const {
  std::vector<std::pair<std::string, JsonField>> all;
  for (const auto& [key, value] : object().items()) all.emplace_back(key, child(value, key));
  return all;
}

std::string JsonField::text() const {
  if (!value_->is_string()) refuse("be text");
  return value_->get<std::string>();
}

bool JsonField::flag() const {
  if (!value_->is_boolean()) refuse("be true or false");
  return value_->get<bool>();
}

bool JsonField::flag(const std::string& key, bool otherwise) const {
  const std::optional<JsonField> found = find(key);
  return found ? found->flag() : otherwise;
}

double JsonField::number() const {
  const double number = value_->is_number() ? value_->get<double>() : -1;
  if (!std::isfinite(number) || number < 0) refuse("be a number of at least 0");
  return number;
}

int JsonField::whole() const {
  if (!value_->is_number_unsigned() || value_->get<std::uint64_t>() > INT32_MAX)
    refuse("be a whole number below 2147483648");
  return value_->get<int>();
}

int JsonField::id() const {
  return check_id(*value_, "");
}

int JsonField::check_id(const nlohmann::json& value, std::string_view token) const {
  const std::uint64_t limit = std::min<std::uint64_t>(origin_->bytes, INT32_MAX);
  if (value.is_number_unsigned() && value.get<std::uint64_t>() < limit) return value.get<int>();
  const std::string where = token.empty() ? path_ : fmt::format("{} of the token '{}'", path_, token);
  fail_input("{} has the id {} as {}; it must be a whole number below {}, the bytes of the file",
             origin_->name, show(value), shorten(where), limit);
}

void JsonField::allow(std::span<const std::string_view> keys) const {
  for (const auto& [key, value] : object().items()) {
    if (std::ranges::find(keys, key) != keys.end()) continue;
    fail_input("{} has the field {}, which is not supported", origin_->name, path_to(key));
  }
}

void JsonField::refuse(std::string_view must) const {
  if (path_.empty()) fail_input("{} holds {}; it must {}", origin_->name, show(*value_), must);
  fail_input("{} has {} = {}; it must {}", origin_->name, path_, show(*value_), must);
}

// Every value is dropped as soon as it is read.
std::string find_json_problem(std::string_view text, int deepest) {
  struct Found {
    std::string problem;
  };
  std::vector<std::set<std::string>> names;  // of the open objects; a list has none
  const auto visit = [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& value) {
    using Event = nlohmann::json::parse_event_t;
    names.resize(static_cast<std::size_t>(depth));
    if (event == Event::object_start || event == Event::array_start) {
      if (depth == deepest) throw Found{"is nested too deep"};
    } else if (event == Event::key) {
      const auto& name = value.get_ref<const std::string&>();
      if (!names.back().insert(name).second) throw Found{fmt::format("has '{}' twice", shown_name(name))};
    }
    return false;
  };
  try {
    [[maybe_unused]] const auto dropped = nlohmann::json::parse(text, visit);
    return "";
  } catch (const Found& found) {
    return found.problem;
  } catch (const nlohmann::json::exception&) {
    return kNotJson;
  }
}

UntrustedJson parse_untrusted(std::string_view text, int deepest) {
  UntrustedJson result{.value = {}, .problem = find_json_problem(text, deepest)};
  if (result.problem.empty()) result.value = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  return result;
}

std::string shown_name(std::string_view name) {
  constexpr std::size_t kLongest = 120;
  std::string shown(name.substr(0, kLongest));
  replace_controls(shown);
  return name.size() > kLongest ? shown + "..." : shown;
}

}  // namespace twobw
