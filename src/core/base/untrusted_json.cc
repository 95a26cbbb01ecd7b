#include "core/base/untrusted_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

namespace twobw {
namespace {

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
