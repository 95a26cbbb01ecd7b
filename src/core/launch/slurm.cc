#include "core/launch/slurm.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "core/base/error.h"

namespace twobw::launch {
namespace {

// More is a mistake in the variable, and a list of it a waste of memory.
constexpr std::size_t kMostHosts = 1 << 20;

[[noreturn]] void refuse_list(std::string_view name, std::string_view list, std::string_view allowed) {
  fail_input("the environment has {}='{}'; it must be {}", name, list, allowed);
}

// Parts between commas that stand in no brackets; nothing: brackets that do not match.
std::optional<std::vector<std::string_view>> split_list(std::string_view list) {
  std::vector<std::string_view> parts;
  bool inside = false;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if ((list[i] == '[' && inside) || (list[i] == ']' && !inside)) return std::nullopt;
    if (list[i] == '[' || list[i] == ']') inside = list[i] == '[';
    if (list[i] != ',' || inside) continue;
    parts.push_back(list.substr(begin, i - begin));
    begin = i + 1;
  }
  parts.push_back(list.substr(begin));
  if (inside) return std::nullopt;
  return parts;
}

std::optional<int> parse_digits(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool digits = text.find_first_not_of("0123456789") == std::string_view::npos;
  if (error != std::errc() || end != text.data() + text.size() || !digits) return std::nullopt;
  return number;
}

// "03-05,9": 03 04 05 9. Numbers are as wide as the first of their range is written.
std::optional<std::vector<std::string>> expand_ranges(std::string_view inside) {
  std::vector<std::string> numbers;
  const auto parts = split_list(inside);
  if (!parts) return std::nullopt;
  for (const std::string_view part : *parts) {
    const std::size_t dash = part.find('-');
    const std::string_view first = part.substr(0, dash);
    const std::string_view last = dash == std::string_view::npos ? first : part.substr(dash + 1);
    const auto low = parse_digits(first), high = parse_digits(last);
    if (!low || !high || *low > *high || numbers.size() + (*high - *low) >= kMostHosts) return std::nullopt;
    for (int number = *low; number <= *high; ++number)
      numbers.push_back(fmt::format("{:0{}}", number, first.size()));
  }
  return numbers;
}

// Hosts of one part of the list: of each bracket from the left every number, the last bracket's fastest.
std::optional<std::vector<std::string>> expand_part(std::string_view part) {
  std::vector<std::string> hosts = {""};
  while (!part.empty()) {
    const std::size_t open = part.find('[');
    for (std::string& host : hosts) host += part.substr(0, open);
    if (open == std::string_view::npos) break;
    const std::size_t close = part.find(']', open);
    const auto numbers = expand_ranges(part.substr(open + 1, close - open - 1));
    if (!numbers || hosts.size() * numbers->size() > kMostHosts) return std::nullopt;
    std::vector<std::string> longer;
    for (const std::string& host : hosts) {
      for (const std::string& number : *numbers) longer.push_back(host + number);
    }
    hosts = std::move(longer);
    part.remove_prefix(close + 1);
  }
  return hosts;
}

}  // namespace

std::vector<std::string> expand_hosts(std::string_view list, std::string_view name) {
  constexpr std::string_view kAllowed = "a list of hosts such as node[03-07,9],login";
  const auto parts = split_list(list);
  if (!parts) refuse_list(name, list, kAllowed);
  std::vector<std::string> hosts;
  for (const std::string_view part : *parts) {
    const auto expanded = expand_part(part);
    if (part.empty() || !expanded || hosts.size() + expanded->size() > kMostHosts)
      refuse_list(name, list, kAllowed);
    hosts.insert(hosts.end(), expanded->begin(), expanded->end());
  }
  return hosts;
}

std::vector<int> expand_counts(std::string_view list, std::string_view name) {
  constexpr std::string_view kAllowed = "numbers of tasks such as 2(x3),1";
  const auto parts = split_list(list);
  if (!parts) refuse_list(name, list, kAllowed);
  std::vector<int> counts;
  for (const std::string_view part : *parts) {
    const std::size_t open = part.find("(x");
    const auto count = parse_digits(part.substr(0, open));
    std::optional<int> times = 1;
    if (open != std::string_view::npos) {
      times =
          part.ends_with(')') ? parse_digits(part.substr(open + 2, part.size() - open - 3)) : std::nullopt;
    }
    if (!count || !times || *times < 1 || counts.size() + static_cast<std::size_t>(*times) > kMostHosts)
      refuse_list(name, list, kAllowed);
    counts.insert(counts.end(), static_cast<std::size_t>(*times), *count);
  }
  return counts;
}

}  // namespace twobw::launch
