#include "engine/control/agreement.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>

#include "core/base/codec.h"
#include "core/base/error.h"

namespace twobw::control {
namespace {

constexpr std::size_t kMostLines = 8;
constexpr std::size_t kLongestValue = 1000;

// Keys of all ranks, in the order of first appearance.
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

[[noreturn]] void give_up(Control& control, const std::string& why) {
  control.abort(why);
  throw RunError(why);
}

// Rank 0: returns the difference, or empty.
std::string judge(Control& control, Mail& mail, const Facts& own, double deadline_s) {
  std::vector<Facts> all = {own};
  std::vector<int> missing;
  const auto until = Clock::now() + seconds(deadline_s);
  for (int rank = 1; rank < control.size(); ++rank) {
    const auto bytes = mail.receive(rank, until);
    if (!bytes) {
      missing.push_back(rank);
    } else {
      all.push_back(from_bytes<Facts>(*bytes));
    }
  }
  if (!missing.empty())
    give_up(control, fmt::format("{} did not join the comparison before the start within {} s",
                                 describe_ranks(missing), deadline_s));
  const std::string verdict = compare_facts(all);
  mail.send_to_others(verdict);
  // Before ranks end without leaving, so that this reason counts.
  if (!verdict.empty()) control.abort({verdict, /*wrong_input=*/true});
  return verdict;
}

// The other ranks. Rank 0 may call as late as the deadline allows, and waits as long again.
std::string ask(Control& control, Mail& mail, const Facts& own, double deadline_s) {
  mail.send(0, to_bytes(own));
  const auto verdict = mail.receive(0, Clock::now() + seconds(2 * deadline_s));
  if (!verdict)
    give_up(control, fmt::format("process 0 did not compare the processes before the start within {} s",
                                 2 * deadline_s));
  return *verdict;
}

}  // namespace

void agree(Control& control, Mail& mail, const Facts& facts, double deadline_s) {
  const std::string verdict =
      control.rank() == 0 ? judge(control, mail, facts, deadline_s) : ask(control, mail, facts, deadline_s);
  if (!verdict.empty()) throw InputError(verdict);
}

std::string compare_facts(const std::vector<Facts>& facts) {
  std::vector<std::map<std::string_view, const std::string*>> values(facts.size());
  for (std::size_t rank = 0; rank < facts.size(); ++rank) {
    for (const auto& [key, value] : facts[rank]) values[rank].emplace(key, &value);
  }
  std::vector<std::string> lines;
  std::size_t differing = 0;
  for (const std::string& key : all_keys(facts)) {
    // Groups the ranks by value, in the order of their first ranks.
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
