// Places are filled ahead, in order, and never while they are in use; the destructor ends the thread.
#include "engine/runtime/microbatches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <latch>
#include <stdexcept>
#include <thread>
#include <vector>

#include "engine/transport/wait_hub.h"

namespace twobw::runtime {
namespace {
namespace ahead {

TEST(ReadAheadTest, FillsBeforeItIsAskedButNotMoreThanItMay) {
  constexpr int kAhead = 3;
  std::vector<std::int64_t> places(kAhead, -1);
  std::atomic<std::int64_t> released = 0;
  std::latch third(1);
  ReadAhead read({.name = "test", .ahead = kAhead}, [&](std::int64_t number) {
    EXPECT_LT(number, released + kAhead);
    places[static_cast<std::size_t>(number % kAhead)] = number;
    if (number == 2) third.count_down();
  });
  EXPECT_EQ(read.places(), kAhead);
  read.await(0);
  third.wait();  // not requested yet
  for (std::int64_t number = 0; number < 1000; ++number) {
    if (number > 0) read.await(number);
    EXPECT_EQ(places[static_cast<std::size_t>(number % kAhead)], number);
    ++released;
    read.release(number);
  }
}

TEST(ReadAheadTest, LeavesPlacesAloneThatAreHeld) {
  constexpr int kAhead = 2, kHeld = 3;
  std::vector<std::int64_t> places(kAhead + kHeld, -1);
  ReadAhead read({.name = "test", .ahead = kAhead, .held = kHeld}, [&](std::int64_t number) {
    places[static_cast<std::size_t>(number) % places.size()] = number;
  });
  for (std::int64_t number = 0; number < 500; ++number) {
    read.release(number - kHeld);
    read.await(number);
    for (std::int64_t kept = std::max<std::int64_t>(0, number - kHeld + 1); kept <= number; ++kept)
      EXPECT_EQ(places[static_cast<std::size_t>(kept) % places.size()], kept);
  }
}

TEST(ReadAheadTest, WithoutAThreadItFillsWhenAsked) {
  std::vector<std::int64_t> filled;
  const auto here = std::this_thread::get_id();
  ReadAhead read({.name = "test", .held = 2}, [&](std::int64_t number) {
    EXPECT_EQ(std::this_thread::get_id(), here);
    filled.push_back(number);
  });
  EXPECT_EQ(read.places(), 2);
  for (std::int64_t number = 5; number < 9; ++number) {
    read.release(number - 2);
    read.await(number);
  }
  EXPECT_EQ(filled, (std::vector<std::int64_t>{5, 6, 7, 8}));
  EXPECT_GT(read.waited(), 0);
}

TEST(ReadAheadTest, AnotherNumberThanTheNextBeginsAnew) {
  for (const int threads : {0, 4}) {
    std::vector<std::int64_t> places(4, -1);
    ReadAhead read({.name = "test", .ahead = threads, .held = 4 - threads},
                   [&](std::int64_t number) { places[static_cast<std::size_t>(number % 4)] = number; });
    for (const std::int64_t number : {0, 1, 100, 101, 102, 7, 0, 1}) {
      read.await(number);
      EXPECT_EQ(places[static_cast<std::size_t>(number % 4)], number);
      read.release(number);
    }
  }
}

TEST(ReadAheadTest, FailureToFillIsThrownByAwait) {
  for (const int threads : {0, 2}) {
    ReadAhead read({.name = "test", .ahead = threads}, [&](std::int64_t number) {
      if (number == 3) throw std::runtime_error("the disk is gone");
    });
    for (std::int64_t number = 0; number < 3; ++number) {
      read.await(number);
      read.release(number);
    }
    EXPECT_THROW(read.await(3), std::runtime_error);
    EXPECT_THROW(read.await(4), std::runtime_error);
    read.await(9);  // another sequence
  }
}

TEST(ReadAheadTest, TimeoutNamesTheMicrobatch) {
  std::latch allowed(1);
  ReadAhead read({.name = "test", .ahead = 1, .timeout = 0.001}, [&](std::int64_t) { allowed.wait(); });
  std::string message;
  try {
    read.await(7);
  } catch (const transport::WaitTimeout& timeout) {
    message = timeout.what();
  }
  EXPECT_EQ(message, "no data of microbatch 7 within 0.001 s");
  allowed.count_down();
}

TEST(ReadAheadTest, EndsWhileAPlaceIsBeingFilled) {
  std::latch entered(1), allowed(1);
  bool filled = false;
  std::future<void> later;
  {
    ReadAhead read({.name = "test", .ahead = 2}, [&](std::int64_t number) {
      if (number == 0) return;
      entered.count_down();
      allowed.wait();
      filled = true;
    });
    read.await(0);
    entered.wait();
    later = std::async(std::launch::async, [&] { allowed.count_down(); });
  }
  EXPECT_TRUE(filled);
  ReadAhead unused({.name = "test", .ahead = 2}, [](std::int64_t) { FAIL(); });
}

}  // namespace ahead
}  // namespace
}  // namespace twobw::runtime
