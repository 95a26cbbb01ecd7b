#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "core/base/error.h"
#include "engine/control/agreement.h"
#include "engine/control/ranks.h"

namespace twobw::control {
namespace {

constexpr std::size_t kMostLines = 8;
constexpr std::size_t kLongestValue = 1000;

// Keys of all ranks, in the order in which they first appear.
std::vector<std::string> all_keys(const std::vector<Facts>& facts) {
  std::vector<std::string> keys;
  std::map<std::string_view, bool> known;
  for (const Facts& one : facts) {
    for (const auto& [key, value] : one) {
      if (!std::exchange(known[key], true)) keys.push_back(key);
    }
  }
  return keys;
}

std::string shown(const std::string* value) {
  if (!value) return "missing";
  const bool cut = value->size() > kLongestValue;
  return fmt::format("'{}{}'", value->substr(0, kLongestValue), cut ? "..." : "");
}

}  // namespace

std::string compare_facts(const std::vector<Facts>& facts) {
  std::vector<std::map<std::string_view, const std::string*>> values(facts.size());
  for (std::size_t rank = 0; rank < facts.size(); ++rank) {
    for (const auto& [key, value] : facts[rank]) values[rank].emplace(key, &value);
  }
  std::vector<std::string> lines;
  std::size_t differing = 0;
  for (const std::string& key : all_keys(facts)) {
    // Who has which value; the first rank's first.
    std::vector<std::pair<const std::string*, std::vector<int>>> groups;
    for (std::size_t rank = 0; rank < facts.size(); ++rank) {
      const auto found = values[rank].find(key);
      const std::string* value = found == values[rank].end() ? nullptr : found->second;
      const auto group = std::ranges::find_if(groups, [&](const auto& other) {
        return value && other.first ? *value == *other.first : value == other.first;
      });
      auto& ranks =
          group == groups.end() ? groups.emplace_back(value, std::vector<int>()).second : group->second;
      ranks.push_back(static_cast<int>(rank));
    }
    if (groups.size() < 2 || ++differing > kMostLines) continue;
    std::vector<std::string> parts;
    for (const auto& [value, ranks] : groups)
      parts.push_back(fmt::format("{} on {}", shown(value), describe_ranks(ranks)));
    lines.push_back(fmt::format("{} is {}", key, fmt::join(parts, ", ")));
  }
  if (lines.empty()) return "";
  if (differing > kMostLines) lines.push_back(fmt::format("and {} more", differing - kMostLines));
  return fmt::format("the processes of this run must agree, but {}", fmt::join(lines, "\n  "));
}

}  // namespace twobw::control
