// A rank among peers that complete the handshake and then misbehave.
#include <gtest/gtest.h>

#include <future>

#include "engine/control/peers.h"
#include "engine/control/protocol.h"
#include "tests/engine/control/ranks.h"

namespace twobw::control {
namespace {

using Lines = std::vector<std::string>;

// Peers here never close, so waiting for them at the end is pointless.
Options impatient(double heartbeat_s = 2, double heartbeat_timeout_s = 30) {
  return {.heartbeat_s = heartbeat_s, .heartbeat_timeout_s = heartbeat_timeout_s, .farewell_s = 0.01};
}

std::unique_ptr<Connection> rank_one(const Endpoint& endpoint, int size = 2) {
  return join(rendezvous_at(endpoint, 1, size), {});
}

RankSet rank_set_of(std::unique_ptr<Control> control) {
  std::vector<std::unique_ptr<Control>> one;
  one.push_back(std::move(control));
  return RankSet(std::move(one));
}

void say(Connection& connection, const std::string& words) {
  connection.queue(std::make_shared<const std::string>(words));
  EXPECT_TRUE(connection.write());
}

TEST(Peers, OneThatDies) {
  RankZero zero(2);
  auto fake = rank_one(zero.endpoint());
  RankSet ranks = rank_set_of(zero.take());
  fake.reset();
  ranks.expect_one_reason("process 1 closed its connection without leaving");
}

TEST(Peers, OneThatDiesBeforeAllAreThere) {
  RankZero zero(3);
  rank_one(zero.endpoint(), 3).reset();
  EXPECT_EQ(zero.error(), "process 1 closed its connection without leaving");
}

TEST(Peers, OneThatDiesAfterItHasLeft) {
  RankZero zero(2);
  auto fake = rank_one(zero.endpoint());
  RankSet ranks = rank_set_of(zero.take());
  say(*fake, encode({.kind = Frame::Kind::Left, .from = 1}) + encode({.from = 1, .to = 0, .body = "bye"}));
  EXPECT_EQ(ranks.logs[0].wait(1), Lines{"1: bye"});
  EXPECT_TRUE(ranks[0].liveness()[0].has_left);
  fake.reset();
  ranks[0].leave();
  EXPECT_EQ(ranks.aborts[0].lines(), Lines());
}

TEST(Peers, OneThatSaysNothing) {
  RankZero zero(2, impatient(0.05, 0.2));
  auto fake = rank_one(zero.endpoint());
  RankSet ranks = rank_set_of(zero.take());
  ranks.expect_one_reason("process 1 has been silent for 0.2 s");
  // The silent rank receives the reason, too.
  EXPECT_EQ(wait_for_kind(*fake, Frame::Kind::Abort).body, "process 1 has been silent for 0.2 s");
}

TEST(Peers, RankZeroGivesSignsOfLife) {
  RankZero zero(2, impatient(0.01));
  auto fake = rank_one(zero.endpoint());
  RankSet ranks = rank_set_of(zero.take());
  for (int i = 0; i < 3; ++i) {
    const auto lives = decode_liveness(wait_for_kind(*fake, Frame::Kind::Beat).body);
    EXPECT_EQ(lives.size(), 2u);
  }
}

TEST(Peers, WhatIsNoFrameOrSpeaksForOthers) {
  const Frame foreign{.from = 0, .to = 0, .body = "I am rank 0"};
  const Frame to_nobody{.from = 1, .to = 7};
  const Frame not_its_own{.kind = Frame::Kind::AllLeft, .from = 1};
  for (const std::string& words :
       {std::string(40, '\xff'), encode(foreign), encode(to_nobody), encode(not_its_own)}) {
    RankZero zero(2, impatient());
    auto fake = rank_one(zero.endpoint());
    RankSet ranks = rank_set_of(zero.take());
    say(*fake, words);
    const std::string reason = ranks.aborts[0].wait(1)[0];
    EXPECT_EQ(reason.find("process 1 sent an "), 0u) << reason;
    EXPECT_EQ(ranks.logs[0].lines(), Lines());
  }
}

// A rank 0 that accepts one rank and sends frames chosen by the test.
class FakeZero {
 public:
  FakeZero() : listener_({}) {}

  RankSet rank_one(const Options& options, int size = 2) {
    auto one = std::async(std::launch::async,
                          [&] { return connect(rendezvous_at(listener_.endpoint(), 1, size), options); });
    pollfd polled = {.fd = listener_.get(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(poll(&polled, 1, 20'000), 1);
    connection_ = std::make_unique<Connection>(
        Descriptor(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)));
    say(*connection_, encode({.kind = Frame::Kind::Accepted}) + encode({.kind = Frame::Kind::Begin}));
    return rank_set_of(one.get());
  }
  Connection& connection() { return *connection_; }
  // The hello comes before the first frame.
  Frame next(Frame::Kind kind) {
    if (!std::exchange(greeted_, true)) skip_hello();
    return wait_for_kind(*connection_, kind);
  }

 private:
  void skip_hello() {
    while (true) {
      if (const auto hello = decode_hello(connection_->received())) return connection_->use(hello->bytes);
      pollfd polled = connection_->polled();
      ASSERT_EQ(poll(&polled, 1, 20'000), 1);
      ASSERT_TRUE(connection_->read());
    }
  }
  Listener listener_;
  std::unique_ptr<Connection> connection_;
  bool greeted_ = false;
};

TEST(RankZero, ThatSaysNothing) {
  FakeZero zero;
  RankSet ranks = zero.rank_one(impatient(2, 0.2));
  ranks.expect_one_reason("process 0 has been silent for 0.2 s");
}

TEST(RankZero, ThatNeverSaysWhichReasonStands) {
  FakeZero zero;
  Options options = impatient();
  options.verdict_s = 0.05;
  RankSet ranks = zero.rank_one(options);
  ranks[0].abort("of its own accord");
  ranks.expect_one_reason("process 1: of its own accord");
  EXPECT_EQ(zero.next(Frame::Kind::Abort).body, "of its own accord");
}

TEST(RankZero, OfSeveralReasonsItsWordStands) {
  FakeZero zero;
  Options options = impatient();
  options.verdict_s = 20;
  RankSet ranks = zero.rank_one(options, 3);
  ranks[0].abort("mine");
  EXPECT_EQ(zero.next(Frame::Kind::Abort).body, "mine");
  EXPECT_EQ(ranks.aborts[0].lines(), Lines());
  say(zero.connection(), encode({.kind = Frame::Kind::Abort, .body = "process 2: theirs"}));
  ranks.expect_one_reason("process 2: theirs");
}

TEST(RankZero, GetsSignsOfLifeAndTellsThoseOfAll) {
  FakeZero zero;
  RankSet ranks = zero.rank_one(impatient(0.01), 3);
  for (int i = 0; i < 3; ++i) zero.next(Frame::Kind::Beat);
  const std::string beat = encode_liveness({{0, 0, true}, {1, 0, false}, {2, 7, false}});
  say(zero.connection(), encode({.kind = Frame::Kind::Beat, .body = beat}) + encode({.from = 2, .to = 1}));
  EXPECT_EQ(ranks.logs[0].wait(1), Lines{"2: "});
  const std::vector<Liveness> lives = ranks[0].liveness();
  EXPECT_TRUE(lives[0].has_left);
  EXPECT_LT(lives[0].silent_s, 7);
  EXPECT_EQ(lives[1].rank, 2);
  EXPECT_GE(lives[1].silent_s, 7);
  EXPECT_FALSE(lives[1].has_left);
}

TEST(RankZero, ThatMakesNoSense) {
  const Frame from_itself{.from = 1, .to = 1}, to_another{.from = 0, .to = 2},
      from_nobody{.from = 9, .to = 1};
  const Frame short_beat{.kind = Frame::Kind::Beat, .body = "abcde"};
  for (const Frame& frame : {from_itself, to_another, from_nobody, short_beat}) {
    FakeZero zero;
    RankSet ranks = zero.rank_one(impatient(), 3);
    say(zero.connection(), encode(frame));
    const std::string reason = ranks.aborts[0].wait(1)[0];
    EXPECT_EQ(reason.find("process 0 sent an invalid frame"), 0u) << reason;
  }
}

}  // namespace
}  // namespace twobw::control
