#include "engine/transport/processes.h"

#include <gtest/gtest.h>

#include <future>

#include "core/base/error.h"
#include "tests/engine/runtime/ranks.h"

namespace twobw::transport {
namespace {

class MailTest : public testing::Test {
 protected:
  runtime::Ranks ranks_{3, wire_kinds().front()};
};

TEST_F(MailTest, MessagesArriveInTheOrderOfTheirSends) {
  ranks_.run([this](int rank) {
    control::Mail& mail = ranks_[rank]->mail();
    mail.send_to_others(fmt::format("first of {}", rank));
    mail.send((rank + 1) % 3, fmt::format("second of {}", rank));
    for (int other = 0; other < 3; ++other) {
      if (other == rank) continue;
      EXPECT_EQ(mail.receive(other), fmt::format("first of {}", other));
    }
    const int before = (rank + 2) % 3;
    EXPECT_EQ(mail.receive(before), fmt::format("second of {}", before));
    EXPECT_EQ(mail.poll(before), std::nullopt);
  });
}

TEST_F(MailTest, AFailureEndsTheWaitsOfOthersWithItsReason) {
  std::vector<std::string> reasons(3);
  on_all_ranks(3, [&](int rank) {
    Processes& processes = *ranks_[rank];
    try {
      abort_on_failure(&processes, [&] {
        if (rank == 2) fail_run("no more paper\nand a stack");
        if (rank == 1) processes.wires().state->receive(0, 7, at::zeros({1}))->wait();
        processes.mail().receive(2);
      });
    } catch (const RunError& error) {
      reasons[rank] = error.what();
    }
  });
  EXPECT_EQ(reasons[2], "no more paper\nand a stack");
  for (const int rank : {0, 1}) {
    EXPECT_NE(reasons[rank].find("no more paper"), std::string::npos) << reasons[rank];
    EXPECT_EQ(reasons[rank].find("stack"), std::string::npos) << reasons[rank];
  }
}

// As of process 0 before it sends its plan; what was sent before is still taken.
TEST_F(MailTest, WrongInputOfOneIsWrongForThoseWhoWait) {
  std::vector<std::string> refusals(3);
  on_all_ranks(3, [&](int rank) {
    Processes& processes = *ranks_[rank];
    try {
      abort_on_failure(&processes, [&] {
        if (rank == 0) processes.mail().send_to_others("here");
        if (rank == 0) fail_input("run_dir is a file");
        EXPECT_EQ(processes.mail().receive(0), "here");
        if (rank == 1) processes.wires().state->receive(0, 7, at::zeros({1}))->wait();
        processes.mail().receive(0);
      });
    } catch (const InputError& error) {
      refusals[rank] = error.what();
    }
  });
  EXPECT_EQ(refusals[0], "run_dir is a file");
  for (const int rank : {1, 2}) EXPECT_EQ(refusals[rank], "process 0: run_dir is a file");
}

}  // namespace
}  // namespace twobw::transport
