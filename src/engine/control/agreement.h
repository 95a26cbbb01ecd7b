// Agreement before the start of a run: configuration key by key, split, versions, checksums of data must be
// equal on all ranks. Rank 0 compares, and sends every rank the verdict.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "engine/control/control.h"

namespace twobw::control {

// Distinct keys and their values, in the order of messages.
using Facts = std::vector<std::pair<std::string, std::string>>;

class Agreement {
 public:
  // Before control.start(): handles Topic::Agreement. The control outlives it.
  explicit Agreement(Control& control);

  // Collective: returns if all ranks agree. Throws InputError on all ranks, with the keys, values and ranks
  // that differ, or RunError with the ranks that did not call within `deadline_s` of rank 0's call; the run
  // is aborted in both cases. Raises the failure after any other abort.
  void reach(const Facts& facts, double deadline_s);

 private:
  struct State;
  // False: timed out. Raises the failure after an abort, unless it is done.
  template <typename Done>
  bool wait(std::unique_lock<std::mutex>& lock, double limit_s, Done done);
  std::vector<Facts> gather(std::unique_lock<std::mutex>& lock, std::uint32_t round, double deadline_s);
  std::string await_verdict(std::unique_lock<std::mutex>& lock, std::uint32_t round, double deadline_s);
  [[noreturn]] void give_up(const std::string& why);

  Control& control_;
  std::shared_ptr<State> state_;
};

// The keys that differ, at most 8, a line each; empty if none. `facts`: by rank.
std::string compare_facts(const std::vector<Facts>& facts);

}  // namespace twobw::control
