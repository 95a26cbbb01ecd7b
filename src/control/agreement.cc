#include "control/agreement.h"

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>

#include "base/error.h"
#include "control/bytes.h"
#include "control/ranks.h"

namespace twobw::control {

// Bodies are the number of the round, then facts (to rank 0) or the verdict (from it): empty, or what
// differs.
struct Agreement::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::uint32_t, std::map<int, Facts>> facts;
  std::map<std::uint32_t, std::string> verdicts;
  std::optional<std::string> abort;
  std::uint32_t round = 0;
};

Agreement::Agreement(Control& control) : control_(control), state_(std::make_shared<State>()) {
  control.on(Topic::Agreement, [state = state_, rank = control.rank()](int from, std::string_view body) {
    ByteReader in(body);
    const std::uint32_t round = in.u32();
    const std::string_view rest = in.raw(in.left());
    const std::lock_guard lock(state->mutex);
    if (rank == 0) {
      state->facts[round][from] = decode_facts(rest);
    } else {
      state->verdicts[round] = rest;
    }
    state->changed.notify_all();
  });
  control.on_abort([state = state_](const std::string& reason) {
    const std::lock_guard lock(state->mutex);
    state->abort = reason;
    state->changed.notify_all();
  });
}

void Agreement::reach(const Facts& facts, double deadline_s) {
  std::unique_lock lock(state_->mutex);
  const std::uint32_t round = state_->round++;
  const auto message = [&](std::string_view rest) {
    ByteWriter out;
    out.u32(round);
    out.raw(rest);
    return out.take();
  };
  // Through the control on rank 0 too: an ordinary message to itself.
  control_.send(0, Topic::Agreement, message(encode_facts(facts)));
  const auto wait_for = [&](double limit_s, auto&& done) {
    state_->changed.wait_for(lock, std::chrono::duration<double>(limit_s),
                             [&] { return done() || state_->abort; });
    return done();
  };
  std::string verdict;
  if (control_.rank() == 0) {
    std::map<int, Facts>& given = state_->facts[round];
    const bool complete =
        wait_for(deadline_s, [&] { return static_cast<int>(given.size()) == control_.size(); });
    if (!complete && !state_->abort) {
      std::vector<int> missing;
      for (int rank = 0; rank < control_.size(); ++rank) {
        if (!given.contains(rank)) missing.push_back(rank);
      }
      const std::string why = fmt::format("{} did not come to the comparison before the start within {} s",
                                          describe_ranks(missing), deadline_s);
      control_.abort(why);
      throw RunError(why);
    }
    if (!complete) throw RunError(*state_->abort);
    std::vector<Facts> all;
    for (auto& [rank, one] : given) all.push_back(std::move(one));
    state_->facts.erase(round);
    verdict = compare_facts(all);
    control_.send_to_others(Topic::Agreement, message(verdict));
  } else {
    // Rank 0 may come as late as its own deadline allows the others, and waits as long again.
    const bool said = wait_for(2 * deadline_s, [&] { return state_->verdicts.contains(round); });
    if (!said && state_->abort) throw RunError(*state_->abort);
    if (!said) {
      const std::string why =
          fmt::format("rank 0 did not compare the ranks before the start within {} s", 2 * deadline_s);
      control_.abort(why);
      throw RunError(why);
    }
    verdict = state_->verdicts[round];
  }
  if (!verdict.empty()) throw InputError(verdict);
}

}  // namespace twobw::control
