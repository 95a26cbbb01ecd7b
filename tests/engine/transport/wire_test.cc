// The contract of wires, for every kind.
#include "engine/transport/wire.h"

#include <gtest/gtest.h>

#include <latch>
#include <mutex>
#include <thread>

#include "core/base/error.h"
#include "engine/control/socket.h"
#include "engine/transport/wait_hub.h"
#include "tests/engine/transport/wires.h"
#include "tests/support/refusal.h"

namespace twobw::transport {
namespace {

using Transfers = std::vector<std::shared_ptr<Transfer>>;

void wait_for(const Transfers& transfers) {
  for (const auto& transfer : transfers) transfer->wait();
}

class Wired : public testing::TestWithParam<WireKind> {
 protected:
  void SetUp() override {
    if (GetParam().is_missing) GTEST_SKIP() << "built without Gloo";
  }
  static AllWires make(int size) { return GetParam().make(size); }
};

INSTANTIATE_TEST_SUITE_P(Wires, Wired, testing::ValuesIn(wire_kinds()),
                         [](const auto& info) { return std::string(info.param.name); });

// Neither waits for its send before it has posted its receive.
TEST_P(Wired, CarryTensorsBothWaysAtOnce) {
  const AllWires wires = make(2);
  on_all_ranks(2, [&](int rank) {
    const at::Tensor sent = at::full({1 << 18}, rank + 0.5), received = at::zeros({1 << 18});
    const auto arriving = wires[rank]->receive(1 - rank, 7, received);
    const auto leaving = wires[rank]->send(1 - rank, 7, sent);
    arriving->wait();
    leaving->wait();
    EXPECT_TRUE(received.equal(at::full({1 << 18}, 1 - rank + 0.5)));
  });
}

TEST_P(Wired, PostWithoutWaitingForTheOtherSide) {
  const AllWires wires = make(2);
  const at::Tensor sent = at::arange(100), received = at::zeros({100}, at::kLong);
  const auto leaving = wires[0]->send(1, 3, sent);  // nobody receives yet
  const auto arriving = wires[1]->receive(0, 3, received);
  arriving->wait();
  leaving->wait();
  EXPECT_TRUE(received.equal(sent));
}

TEST_P(Wired, KeepTheOrderOfATagAndTagsApart) {
  constexpr int kMany = 50;
  const AllWires wires = make(2);
  std::vector<at::Tensor> sent, received;
  Transfers transfers;
  for (int i = 0; i < kMany; ++i) {
    received.push_back(at::zeros({i + 1}));
    transfers.push_back(wires[1]->receive(0, 100 + i % 2, received.back()));
  }
  for (int tag : {101, 100}) {  // the other way round
    for (int i = tag - 100; i < kMany; i += 2) {
      sent.push_back(at::full({i + 1}, static_cast<float>(i)));
      transfers.push_back(wires[0]->send(1, tag, sent.back()));
    }
  }
  wait_for(transfers);
  for (int i = 0; i < kMany; ++i)
    EXPECT_TRUE(received[i].equal(at::full({i + 1}, static_cast<float>(i)))) << i;
}

TEST_P(Wired, EndAllWaitsWhereTheyAreAborted) {
  const AllWires wires = make(2);
  const at::Tensor tensor = at::zeros({10});
  std::latch about_to_wait(2);
  const auto wait_in_vain = [&](const std::shared_ptr<Transfer>& transfer) {
    return std::async(std::launch::async, [&about_to_wait, transfer] {
      about_to_wait.count_down();
      transfer->wait();
    });
  };
  auto receiving = wait_in_vain(wires[0]->receive(1, 5, tensor));
  auto sending = wait_in_vain(wires[0]->send(1, 6, tensor));
  const auto later = wires[0]->receive(1, 7, tensor);
  about_to_wait.wait();
  wires[0]->abort();
  EXPECT_THROW(receiving.get(), Cancelled);
  EXPECT_THROW(sending.get(), Cancelled);
  EXPECT_THROW(later->wait(), Cancelled);
  EXPECT_THROW(wires[0]->receive(1, 8, tensor), Cancelled);
  EXPECT_THROW(wires[0]->send(1, 8, tensor), Cancelled);
}

// Before a rank publishes its address, another program connects there and poses as its peer.
class OccupiedStore : public c10d::HashStore {
 public:
  void set(const std::string& key, const std::vector<std::uint8_t>& value) override {
    {
      std::lock_guard lock(mutex_);
      for (const int listener : control::listening_sockets()) {
        for (const std::int64_t peer : {0, 1}) pose_as(peer, control::address_of(listener));
      }
    }
    HashStore::set(key, value);
  }

 private:
  void pose_as(std::int64_t peer, const control::SocketAddress& place) {
    control::Descriptor socket(::socket(place.family(), SOCK_STREAM, 0));
    EXPECT_EQ(connect(socket.get(), place.get(), place.length), 0);
    EXPECT_EQ(::send(socket.get(), &peer, sizeof peer, 0), static_cast<ssize_t>(sizeof peer));
    impostors_.push_back(std::move(socket));
  }
  std::mutex mutex_;
  std::vector<control::Descriptor> impostors_;
};

TEST(GlooWire, FailsInTimeIfAnotherProgramPosesAsAPeer) {
  if (!built_with_gloo()) GTEST_SKIP() << "built without Gloo";
  const auto store = c10::make_intrusive<OccupiedStore>();
  on_all_ranks(2, [&](int rank) {
    EXPECT_THROW(gloo_wire({.store = store,
                            .rank = rank,
                            .size = 2,
                            .address = "127.0.0.1",
                            .timeout = std::chrono::milliseconds(500)},
                           "test"),
                 RunError);
  });
}

TEST(GlooWire, BrokenConnectionNamesTheOtherSide) {
  if (!built_with_gloo()) GTEST_SKIP() << "built without Gloo";
  AllWires wires = wires_over_gloo(2);
  const at::Tensor tensor = at::zeros({10});
  const auto arriving = wires[0]->receive(1, 5, tensor);
  wires[1].reset();
  const std::string sentence = error_of<RunError>([&] { arriving->wait(); });
  EXPECT_NE(sentence.find("the connection to process 1 broke"), std::string::npos) << sentence;
}

}  // namespace
}  // namespace twobw::transport
