// Exceptions that are not caught, on threads of all kinds.
#include "core/base/failures.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

#include "core/base/error.h"
#include "core/base/output.h"

namespace twobw {
namespace {

[[noreturn]] void lose_a_thread() {
  report_unhandled_exceptions("process 1 on here: ");
  std::thread([] {
    throw std::runtime_error("[enforce fail at a.cc:63] false. accept: no room\nframe #0");
  }).join();
  leave(7);
}

TEST(Unhandled, IsOneSentence) {
  EXPECT_EXIT(lose_a_thread(), testing::ExitedWithCode(1),
              "^twobw: process 1 on here: a thread failed: accept: no room\n$");
}

// The main thread, which would end the program, reports as of any other failure.
TEST(Unhandled, EndsTheProgramInItsOwnWay) {
  const auto end_by_hook = [] {
    const UnhandledHook hook([](const std::string& reason) {
      std::fprintf(stderr, "%d, %s; the report\n", thread_is_lost(), reason.c_str());
      leave(5);
    });
    lose_a_thread();
  };
  EXPECT_EXIT(end_by_hook(), testing::ExitedWithCode(5),
              "^1, a thread failed: accept: no room; the report\n$");
}

TEST(Unhandled, WithoutATypeItIsReported) {
  const auto end = [] {
    report_unhandled_exceptions("");
    std::thread([] { throw 3; }).join();
  };
  EXPECT_EXIT(end(), testing::ExitedWithCode(1),
              "^twobw: a thread failed by an exception of an unknown type\n$");
}

TEST(MessageOf, IsTheSentenceAlone) {
  const auto of = [](const char* text) { return message_of(std::runtime_error(text)); };
  EXPECT_EQ(of("[/gloo/pair.cc:547] Connection closed. By peer\nframe"), "Connection closed. By peer");
  EXPECT_EQ(of("[enforce fail at /gloo/loop.cc:63] nfds != -1. "), "nfds != -1. ");
  EXPECT_EQ(of("[enforce fail at /gloo/loop.cc:63] false"), "false");
  EXPECT_EQ(of("[] is empty. Why"), "is empty. Why");
  EXPECT_EQ(of("plain"), "plain");
}

}  // namespace
}  // namespace twobw
