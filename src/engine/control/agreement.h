// Before a run starts all ranks compare what must be alike: the configuration key by key, the split,
// versions, checksums of data. Rank 0 compares, and every rank learns the verdict.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "engine/control/control.h"

namespace twobw::control {

// In the order of the message; keys are distinct.
using Facts = std::vector<std::pair<std::string, std::string>>;

class Agreement {
 public:
  // Before control.start(): takes Topic::Agreement. The control outlives it.
  explicit Agreement(Control& control);

  // Called by all ranks, equally often. Returns where all agree. Throws InputError on all ranks, with the
  // keys, the values and the ranks that have them, where they do not, and RunError with the ranks that never
  // came within `deadline_s` of rank 0's call; the run is aborted in both cases. Raises the failure after
  // any other abort.
  void reach(const Facts& facts, double deadline_s);

 private:
  struct State;
  // False: the time is over. Raises the failure after an abort, where it is not done all the same.
  template <typename Done>
  bool wait(std::unique_lock<std::mutex>& lock, double limit_s, Done done);
  std::vector<Facts> gather(std::unique_lock<std::mutex>& lock, std::uint32_t round, double deadline_s);
  std::string await_verdict(std::unique_lock<std::mutex>& lock, std::uint32_t round, double deadline_s);
  [[noreturn]] void give_up(const std::string& why);

  Control& control_;
  std::shared_ptr<State> state_;
};

// What differs, at most 8 keys, a line each; empty: nothing. Rank after rank.
std::string compare_facts(const std::vector<Facts>& facts);

}  // namespace twobw::control
