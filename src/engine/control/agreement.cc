#include "engine/control/agreement.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
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

}  // namespace

// Messages hold the number of the round, then facts (to rank 0) or the verdict (from it): the difference, or
// empty.
struct Agreement::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::uint32_t, std::map<int, Facts>> facts;
  std::map<std::uint32_t, std::string> verdicts;
  std::optional<Failure> abort;
  std::uint32_t round = 0;
};

Agreement::Agreement(Control& control) : control_(control), state_(std::make_shared<State>()) {
  control.on(Topic::Agreement, [state = state_, rank = control.rank()](int from, std::string_view body) {
    if (rank == 0) {
      auto [round, facts] = from_bytes<std::uint32_t, Facts>(body);
      const std::lock_guard lock(state->mutex);
      state->facts[round][from] = std::move(facts);
    } else {
      auto [round, verdict] = from_bytes<std::uint32_t, std::string>(body);
      const std::lock_guard lock(state->mutex);
      state->verdicts[round] = std::move(verdict);
    }
    state->changed.notify_all();
  });
  control.on_abort([state = state_](const Failure& failure) {
    const std::lock_guard lock(state->mutex);
    state->abort = failure;
    state->changed.notify_all();
  });
}

void Agreement::reach(const Facts& facts, double deadline_s) {
  std::unique_lock lock(state_->mutex);
  const std::uint32_t round = state_->round++;
  // Rank 0 sends an ordinary message to itself.
  control_.send(0, Topic::Agreement, to_bytes(round, facts));
  std::string verdict;
  if (control_.rank() == 0) {
    verdict = compare_facts(gather(lock, round, deadline_s));
    control_.send_to_others(Topic::Agreement, to_bytes(round, verdict));
    // Before ranks end without leaving, so that this reason counts.
    if (!verdict.empty()) control_.abort({verdict, /*wrong_input=*/true});
  } else {
    verdict = await_verdict(lock, round, deadline_s);
  }
  if (!verdict.empty()) throw InputError(verdict);
}

template <typename Done>
bool Agreement::wait(std::unique_lock<std::mutex>& lock, double limit_s, Done done) {
  state_->changed.wait_for(lock, std::chrono::duration<double>(limit_s),
                           [&] { return done() || state_->abort.has_value(); });
  if (done()) return true;
  if (state_->abort) state_->abort->raise();
  return false;
}

std::vector<Facts> Agreement::gather(std::unique_lock<std::mutex>& lock, std::uint32_t round,
                                     double deadline_s) {
  std::map<int, Facts>& given = state_->facts[round];
  const auto complete = [&] { return static_cast<int>(given.size()) == control_.size(); };
  if (!wait(lock, deadline_s, complete)) {
    std::vector<int> missing;
    for (int rank = 0; rank < control_.size(); ++rank) {
      if (!given.contains(rank)) missing.push_back(rank);
    }
    give_up(fmt::format("{} did not join the comparison before the start within {} s",
                        describe_ranks(missing), deadline_s));
  }
  std::vector<Facts> all;
  for (auto& [rank, facts] : given) all.push_back(std::move(facts));
  state_->facts.erase(round);
  return all;
}

std::string Agreement::await_verdict(std::unique_lock<std::mutex>& lock, std::uint32_t round,
                                     double deadline_s) {
  // Rank 0 may call as late as the deadline allows, and waits as long again.
  if (!wait(lock, 2 * deadline_s, [&] { return state_->verdicts.contains(round); }))
    give_up(
        fmt::format("process 0 did not compare the processes before the start within {} s", 2 * deadline_s));
  return state_->verdicts[round];
}

void Agreement::give_up(const std::string& why) {
  control_.abort(why);
  throw RunError(why);
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
