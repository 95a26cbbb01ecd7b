#include "engine/transport/wait_hub.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <latch>
#include <string>
#include <utility>
#include <vector>

namespace twobw::transport {
namespace {

using Seconds = std::chrono::duration<double>;
using Clock = std::chrono::steady_clock;

constexpr Seconds kPatience{60};  // only a failing test waits so long

// A condition for WaitHub::wait that reports its first evaluation. The hub evaluates it under its lock, so a
// thread that takes the lock after the latch has opened finds the waiter asleep.
template <typename Condition>
auto reporting(std::latch& looked, Condition condition) {
  return [&looked, condition, first = true]() mutable {
    if (std::exchange(first, false)) looked.count_down();
    return condition();
  };
}

TEST(WaitHub, AnUpdateWakesWhoWaitsForIt) {
  WaitHub hub(kPatience);
  const auto begin = Clock::now();
  int value = 0;
  std::latch looked(1);
  auto waiting = std::async(std::launch::async, [&] {
    return hub.wait("the value", reporting(looked, [&] { return value == 2; }), [&] { return value * 10; });
  });
  looked.wait();
  hub.update([&] { value = 1; });  // not yet
  hub.update([&] { value = 2; });
  EXPECT_EQ(waiting.get(), 20);
  EXPECT_LT(Clock::now() - begin, kPatience / 2);  // woken, not timed out
}

TEST(WaitHub, CancelWakesEveryWaiter) {
  WaitHub hub(kPatience);
  const auto begin = Clock::now();
  constexpr int kWaiting = 4;
  std::latch looked(kWaiting);
  std::vector<std::future<int>> waiting;
  for (int i = 0; i < kWaiting; ++i) {
    waiting.push_back(std::async(std::launch::async, [&] {
      return hub.wait("nothing", reporting(looked, [] { return false; }), [] { return 0; });
    }));
  }
  looked.wait();
  hub.cancel();
  for (auto& wait : waiting) EXPECT_THROW(wait.get(), Cancelled);
  EXPECT_LT(Clock::now() - begin, kPatience / 2);
  EXPECT_THROW(hub.wait(
                   "a value", [] { return true; }, [] { return 0; }),
               Cancelled);
}

TEST(WaitHub, ATimeoutNamesWhatWasWaitedFor) {
  WaitHub hub(Seconds(0.01));
  try {
    hub.wait(
        "gradient of microbatch 3", [] { return false; }, [] { return 0; });
    FAIL() << "did not wait";
  } catch (const WaitTimeout& error) {
    EXPECT_EQ(std::string(error.what()).find("no gradient of microbatch 3 within "), 0u) << error.what();
  }
}

}  // namespace
}  // namespace twobw::transport
