#include "engine/transport/processes.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <latch>

#include "core/base/error.h"
#include "engine/transport/wait_hub.h"
#include "tests/engine/support/memory_control.h"
#include "tests/engine/transport/wires.h"

namespace twobw::transport {
namespace {

using Topic = Processes::Topic;
using Strings = std::vector<std::string>;

// The messages and aborts that one pipeline of one rank has received.
class Heard {
 public:
  Processes::Receiver receiver() {
    return {
        .on_message = [this](Topic, int from,
                             std::string_view body) { add(std::to_string(from) + ": " + std::string(body)); },
        .on_abort = [this](const control::Failure& failure) { add("abort: " + failure.reason); }};
  }
  Strings await(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return all_.size() >= count; });
    return all_;
  }

 private:
  void add(std::string text) {
    std::lock_guard lock(mutex_);
    all_.push_back(std::move(text));
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  Strings all_;
};

std::vector<std::unique_ptr<Processes>> processes_in_memory(int size) {
  std::vector<std::unique_ptr<Processes>> all;
  for (auto& control : control::controls_in_memory(size)) {
    all.push_back(std::make_unique<Processes>(std::move(control)));
    all.back()->control().start();
  }
  return all;
}

TEST(Processes, HandMessagesToThePipelineOfTheSameNumber) {
  Heard here, first, second, next;
  const auto all = processes_in_memory(2);
  EXPECT_EQ(all[0]->attach(here.receiver()), 0);
  all[0]->send(1, Topic::Norms, "early");  // rank 1 has no pipeline yet
  EXPECT_EQ(all[1]->attach(first.receiver()), 0);
  all[0]->send_to_others(Topic::Update, "in time");
  EXPECT_EQ(first.await(2), (Strings{"0: early", "0: in time"}));
  all[1]->send(0, Topic::Gate, "back");
  EXPECT_EQ(here.await(1), Strings{"1: back"});

  // Rank 0 is one pipeline ahead; its messages wait for the other's pipeline.
  all[0]->detach();
  EXPECT_EQ(all[0]->attach(next.receiver()), 1);
  all[0]->send(1, Topic::Norms, "of the second");
  all[1]->send(0, Topic::Norms, "of the first, too late");
  all[1]->detach();
  EXPECT_EQ(all[1]->attach(second.receiver()), 1);
  EXPECT_EQ(second.await(1), Strings{"0: of the second"});
  all[1]->send(0, Topic::Norms, "of the second, too");
  EXPECT_EQ(next.await(1), Strings{"1: of the second, too"});
  EXPECT_EQ(first.await(0).size(), 2u);
}

TEST(Processes, AnAbortReachesPipelinesAndWiresEverywhere) {
  Heard here, there, later;
  const auto all = processes_in_memory(2);
  AllWires wires = wires_in_memory(2);
  const at::Tensor tensor = at::zeros({1});
  const auto never = wires[1]->receive(0, 0, tensor);
  for (int rank = 0; rank < 2; ++rank) all[rank]->set_wires({.exchange = std::move(wires[rank])});
  all[0]->attach(here.receiver());
  all[1]->attach(there.receiver());
  all[0]->abort("out of luck");
  EXPECT_NE(here.await(1).front().find("out of luck"), std::string::npos);
  EXPECT_NE(there.await(1).front().find("out of luck"), std::string::npos);
  EXPECT_THROW(never->wait(), Cancelled);
  EXPECT_EQ(there.await(1).size(), 1u);  // reported once

  all[1]->detach();  // and one that comes later
  all[1]->attach(later.receiver());
  EXPECT_NE(later.await(1).front().find("out of luck"), std::string::npos);
}

}  // namespace
}  // namespace twobw::transport
