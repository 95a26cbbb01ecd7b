#include "core/base/threads.h"

#include <gtest/gtest.h>

#include <barrier>
#include <memory>
#include <thread>
#include <vector>

namespace twobw {
namespace {

TEST(Inbox, ClosedGivesWhatIsLeftAndThenNothing) {
  Inbox<std::unique_ptr<int>> inbox;
  inbox.put(std::make_unique<int>(7));
  inbox.close();
  const auto last = inbox.take();
  ASSERT_TRUE(last);
  EXPECT_EQ(**last, 7);
  EXPECT_FALSE(inbox.take());
  EXPECT_FALSE(inbox.take());
}

TEST(Inbox, AThreadTakesAllThatOthersPut) {
  constexpr int kThreads = 3, kItems = 1000;
  Inbox<int> inbox;
  std::vector<int> last(kThreads, -1);
  int taken = 0;
  bool in_order = true;
  std::thread taker([&] {
    while (const std::optional<int> item = inbox.take()) {
      const int from = *item / kItems, number = *item % kItems;
      in_order = in_order && number == last[from] + 1;
      last[from] = number;
      ++taken;
    }
  });
  std::vector<std::thread> putters;
  for (int from = 0; from < kThreads; ++from) {
    putters.emplace_back([&inbox, from] {
      for (int i = 0; i < kItems; ++i) inbox.put(from * kItems + i);
    });
  }
  for (std::thread& putter : putters) putter.join();
  inbox.close();
  taker.join();
  EXPECT_EQ(taken, kThreads * kItems);
  EXPECT_TRUE(in_order);
}

TEST(RunOnThreads, CallsThatWaitForEachOther) {
  constexpr int kThreads = 4;
  std::barrier all(kThreads);
  std::vector<int> called(kThreads, 0);
  run_on_threads(kThreads, [&](int i) {
    all.arrive_and_wait();
    ++called[i];
  });
  EXPECT_EQ(called, std::vector<int>(kThreads, 1));
  run_on_threads(0, [](int) { FAIL(); });
}

}  // namespace
}  // namespace twobw
