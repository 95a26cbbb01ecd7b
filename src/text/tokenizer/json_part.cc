#include "text/tokenizer/json_part.h"

#include <algorithm>

#include "core/base/error.h"

namespace twobw::tokenizer {
namespace {

nlohmann::json parse_json(const std::string& text, const std::string& name) {
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception&) {
    fail_input("{} is not JSON in UTF-8", name);
  }
}

// Text on one line, truncated.
std::string shorten(std::string text) {
  constexpr std::size_t kShown = 60;
  std::ranges::replace_if(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
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

JsonDocument::JsonDocument(const std::string& text, const std::string& name)
    : value_(std::make_unique<nlohmann::json>(parse_json(text, name))),
      origin_(std::make_unique<JsonPart::Origin>(JsonPart::Origin{name, text.size()})) {}

const std::string& JsonPart::document() const {
  return origin_->name;
}

JsonPart JsonPart::child(const nlohmann::json& value, const std::string& step) const {
  const bool dot = !path_.empty() && !step.starts_with('[');
  return {value, *origin_, path_ + (dot ? "." : "") + shorten(step)};
}

const nlohmann::json& JsonPart::object() const {
  if (!value_->is_object()) refuse("be an object");
  return *value_;
}

const nlohmann::json& JsonPart::list() const {
  if (!value_->is_array()) refuse("be a list");
  return *value_;
}

std::optional<JsonPart> JsonPart::find(const std::string& key) const {
  const auto found = object().find(key);
  if (found == value_->end() || found->is_null()) return std::nullopt;
  return child(*found, key);
}

JsonPart JsonPart::operator[](const std::string& key) const {
  const std::optional<JsonPart> found = find(key);
  if (!found)
    fail_input("{} lacks the field {}", origin_->name, (path_.empty() ? "" : path_ + ".") + shorten(key));
  return *found;
}

std::vector<JsonPart> JsonPart::items() const {
  std::vector<JsonPart> all;
  for (const nlohmann::json& item : list()) all.push_back(child(item, fmt::format("[{}]", all.size())));
  return all;
}

std::vector<std::pair<std::string, JsonPart>> JsonPart::entries() const {
  std::vector<std::pair<std::string, JsonPart>> all;
  for (const auto& [key, value] : object().items()) all.emplace_back(key, child(value, key));
  return all;
}

std::string JsonPart::text() const {
  if (!value_->is_string()) refuse("be text");
  return value_->get<std::string>();
}

bool JsonPart::flag() const {
  if (!value_->is_boolean()) refuse("be true or false");
  return value_->get<bool>();
}

bool JsonPart::flag(const std::string& key, bool otherwise) const {
  const std::optional<JsonPart> found = find(key);
  return found ? found->flag() : otherwise;
}

std::int64_t JsonPart::whole() const {
  if (!value_->is_number_unsigned() || value_->get<std::uint64_t>() > INT32_MAX) {
    refuse("be a whole number below 2147483648");
  }
  return value_->get<std::int64_t>();
}

Id JsonPart::id() const {
  return check_id(*value_, "");
}

Id JsonPart::check_id(const nlohmann::json& value, std::string_view token) const {
  const std::uint64_t limit = std::min<std::uint64_t>(origin_->bytes, INT32_MAX);
  if (value.is_number_unsigned() && value.get<std::uint64_t>() < limit) return value.get<Id>();
  const std::string where = token.empty() ? path_ : fmt::format("{} of the token '{}'", path_, token);
  fail_input("{} has the id {} as {}; it must be a whole number below {}, the bytes of the file",
             origin_->name, show(value), shorten(where), limit);
}

void JsonPart::allow(std::span<const std::string_view> keys) const {
  for (const auto& [key, value] : object().items()) {
    if (std::ranges::find(keys, key) != keys.end()) continue;
    fail_input("{} has the field {}, which is not supported", origin_->name,
               path_.empty() ? shorten(key) : path_ + "." + shorten(key));
  }
}

void JsonPart::refuse(std::string_view must) const {
  if (path_.empty()) fail_input("{} holds {}; it must {}", origin_->name, show(*value_), must);
  fail_input("{} has {} = {}; it must {}", origin_->name, path_, show(*value_), must);
}

}  // namespace twobw::tokenizer
