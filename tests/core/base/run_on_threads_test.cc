#include "core/base/threads.h"

#include <gtest/gtest.h>

#include <barrier>
#include <vector>

namespace twobw {
namespace {

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
