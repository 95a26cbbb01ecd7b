// Which connections rank 0 admits, which it refuses, and whether the run survives them.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <future>

#include "engine/control/peers.h"
#include "engine/control/protocol.h"
#include "tests/engine/control/ranks.h"

namespace twobw::control {
namespace {

using Lines = std::vector<std::string>;

// A connection that says `words` and nothing else.
class ForeignPeer {
 public:
  explicit ForeignPeer(const Endpoint& endpoint, const std::string& words = "")
      : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    const timeval limit = {.tv_sec = 20, .tv_usec = 0};
    setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    const SocketAddress address = resolve(endpoint).front();
    EXPECT_EQ(::connect(socket_.get(), address.get(), address.length), 0);
    // Rank 0 may have closed it already.
    [[maybe_unused]] const auto sent = ::send(socket_.get(), words.data(), words.size(), MSG_NOSIGNAL);
  }
  // All that is answered until rank 0 closes.
  std::string answer() {
    std::string all;
    char bytes[4096];
    ssize_t count;
    while ((count = recv(socket_.get(), bytes, sizeof bytes, 0)) > 0)
      all.append(bytes, static_cast<std::size_t>(count));
    EXPECT_TRUE(count == 0 || errno == ECONNRESET) << "rank 0 did not close";
    return all;
  }
  // Whether rank 0 has closed it; at once.
  bool is_closed() const {
    char byte;
    return recv(socket_.get(), &byte, 1, MSG_DONTWAIT) == 0;
  }

 private:
  Descriptor socket_;
};

std::string error_of_connect(const Rendezvous& meeting, const Options& options = {}) {
  return RankSet::error_of([&] { connect(meeting, options); });
}

RankSet two_ranks(RankZero& zero, const Options& options = {}) {
  auto one = connect(rendezvous_at(zero.endpoint(), 1, 2), options);
  std::vector<std::unique_ptr<Control>> controls;
  controls.push_back(zero.take());
  controls.push_back(std::move(one));
  return RankSet(std::move(controls));
}

void expect_a_good_run(RankSet& ranks) {
  ranks[0].send(1, Topic::Other, "there");
  ranks[1].send(0, Topic::Other, "back");
  EXPECT_EQ(ranks.logs[1].wait(1), Lines{"0: there"});
  EXPECT_EQ(ranks.logs[0].wait(1), Lines{"1: back"});
  EXPECT_EQ(ranks.leave(), Lines(2));
  EXPECT_EQ(ranks.aborts[0].lines(), Lines());
}

TEST(Rendezvous, OfOneNeedsNoSocket) {
  const auto control = connect(rendezvous_at({.address = "nowhere", .port = 1}, 0, 1));
  control->start();
  control->leave();
}

TEST(Rendezvous, AMemberMayComeBeforeRankZeroListens) {
  const Endpoint endpoint = Listener({}).endpoint();  // free again
  auto one = std::async(std::launch::async, [&] { return connect(rendezvous_at(endpoint, 1, 2)); });
  auto zero = connect(rendezvous_at(endpoint, 0, 2));
  one.get();
}

TEST(Rendezvous, APortThatIsTakenIsNamed) {
  const Listener listener({});
  const std::string error = error_of_connect(rendezvous_at(listener.endpoint(), 0, 2));
  EXPECT_NE(error.find("process 0 cannot listen at " + describe(listener.endpoint())), std::string::npos)
      << error;
  EXPECT_NE(error.find("in use"), std::string::npos) << error;
}

TEST(Rendezvous, RankZeroNamesThoseThatDidNotCome) {
  RankZero zero(5, {.join_timeout_s = 0.3});
  const std::string at_two = error_of_connect(rendezvous_at(zero.endpoint(), 2, 5), {.join_timeout_s = 20});
  EXPECT_EQ(zero.error(), "processes 1, 3, 4 of 5 did not reach process 0 at " + describe(zero.endpoint()) +
                              " within 0.3 s");
  EXPECT_EQ(at_two, zero.error());
}

TEST(Rendezvous, OthersNameRankZero) {
  const Endpoint endpoint = Listener({}).endpoint();
  const Options options{.join_timeout_s = 0.05};
  EXPECT_EQ(
      error_of_connect(rendezvous_at(endpoint, 1, 2), options),
      "process 1 did not reach process 0 at " + describe(endpoint) + " within 0.05 s: Connection refused");
  const Listener deaf({});
  const std::string error = error_of_connect(rendezvous_at(deaf.endpoint(), 1, 2), options);
  EXPECT_NE(error.find("something listens there, but does not answer"), std::string::npos) << error;
}

TEST(Rendezvous, ARankOfAnotherBuildEndsTheRun) {
  RankZero zero(3, {.farewell_s = 0.05});
  const auto two = join(rendezvous_at(zero.endpoint(), 2, 3), {});
  Rendezvous other = rendezvous_at(zero.endpoint(), 1, 3);
  other.build = "build 2";
  const std::string reason = "process 1 has build 'build 2', process 0 has build 'build 1'";
  EXPECT_EQ(error_of_connect(other), reason);
  EXPECT_EQ(zero.error(), reason);
  EXPECT_EQ(wait_for_kind(*two, Frame::Kind::Abort).body, reason);
}

TEST(Rendezvous, ARankOfAnotherSizeEndsTheRun) {
  RankZero zero(2);
  const std::string reason = "process 1 was started as one of 4 processes, process 0 as one of 2";
  EXPECT_EQ(error_of_connect(rendezvous_at(zero.endpoint(), 1, 4)), reason);
  EXPECT_EQ(zero.error(), reason);
}

TEST(Rendezvous, AnotherProtocolEndsTheRun) {
  RankZero zero(2, {.farewell_s = 0.05});
  ForeignPeer other(zero.endpoint(), encode(Hello{.protocol = 2, .token = kToken}));
  EXPECT_NE(other.answer().find("speaks protocol 2, process 0 protocol 1"), std::string::npos);
  EXPECT_NE(zero.error().find("speaks protocol 2"), std::string::npos);
}

TEST(Rendezvous, ARankThatIsThereTwiceEndsARunThatHasNotBegun) {
  RankZero zero(3, {.farewell_s = 0.05});
  const auto one = join(rendezvous_at(zero.endpoint(), 1, 3), {});
  const std::string reason = error_of_connect(rendezvous_at(zero.endpoint(), 1, 3));
  EXPECT_EQ(reason.find("process 1 is there twice; the second is from 127.0.0.1:"), 0u) << reason;
  EXPECT_EQ(zero.error(), reason);
  EXPECT_EQ(wait_for_kind(*one, Frame::Kind::Abort).body, reason);
}

TEST(Rendezvous, ARankThatIsThereTwiceIsRefusedByARunThatHasBegun) {
  for (int twice : {0, 1}) {
    RankZero zero(2, {.farewell_s = 0.05});
    RankSet ranks = two_ranks(zero);
    // connect() would make rank 0 listen: the words alone.
    ForeignPeer second(zero.endpoint(),
                       encode(Hello{.token = kToken, .build = "build 1", .rank = twice, .size = 2}));
    EXPECT_NE(second.answer().find("process " + std::to_string(twice) + " is there twice"),
              std::string::npos);
    expect_a_good_run(ranks);
  }
}

TEST(Rendezvous, WithoutTheTokenNobodyIsAnswered) {
  RankZero zero(2);
  Hello hello{.token = "a token of others", .build = "build 2", .rank = 1, .size = 7};
  EXPECT_EQ(ForeignPeer(zero.endpoint(), encode(hello)).answer(), "");
  Rendezvous other = rendezvous_at(zero.endpoint(), 1, 2);
  other.token = hello.token;
  const std::string error = error_of_connect(other, {.join_timeout_s = 0.1});
  EXPECT_NE(error.find("closed without an answer"), std::string::npos) << error;
  RankSet ranks = two_ranks(zero);
  expect_a_good_run(ranks);
}

TEST(Rendezvous, GarbageIsDropped) {
  RankZero zero(2);
  std::string too_long = encode(Hello{.token = kToken});
  too_long[13] = '\x7f';
  for (const std::string& words :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(100'000, '\0'), too_long})
    EXPECT_EQ(ForeignPeer(zero.endpoint(), words).answer(), "");
  RankSet ranks = two_ranks(zero);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(ForeignPeer(zero.endpoint(), "SSH-2.0-x\r\n").answer(), "");
  expect_a_good_run(ranks);
}

TEST(Rendezvous, OneThatIsSlowToSpeakIsDropped) {
  RankZero zero(2, {.handshake_s = 0.05});
  const std::string words = encode(Hello{.token = kToken, .build = "build 1", .rank = 1, .size = 2});
  EXPECT_EQ(ForeignPeer(zero.endpoint(), words.substr(0, words.size() - 1)).answer(), "");
  RankSet ranks = two_ranks(zero);
  expect_a_good_run(ranks);
}

TEST(Rendezvous, OldestPendingPeerIsEvicted) {
  RankZero zero(2, {.handshake_s = 600, .pending_peers = 3});
  std::vector<ForeignPeer> idle;
  for (int i = 0; i < 5; ++i) idle.emplace_back(zero.endpoint());
  EXPECT_EQ(idle[0].answer(), "");
  EXPECT_EQ(idle[1].answer(), "");
  EXPECT_FALSE(idle[2].is_closed());
  RankSet ranks = two_ranks(zero);  // in the place of the third
  EXPECT_EQ(idle[2].answer(), "");
  EXPECT_FALSE(idle[4].is_closed());
  expect_a_good_run(ranks);
}

void close_it(Descriptor& socket) {
  const Descriptor closed = std::move(socket);
}

// More connections than may be pending; they send nothing and reconnect whenever they are evicted.
class Flood {
 public:
  Flood(const Endpoint& endpoint, int count)
      : thread_([this, endpoint, count] { reconnect(endpoint, count); }) {}
  ~Flood() {
    over_ = true;
    thread_.join();
  }
  // Blocks until `again` connections have been retried: the pending list is full.
  void wait_for(int again) {
    while (again_ < again) std::this_thread::yield();
  }

 private:
  void reconnect(const Endpoint& endpoint, int count) {
    const SocketAddress address = resolve(endpoint).front();
    std::vector<Descriptor> sockets(static_cast<std::size_t>(count));
    while (!over_) {
      std::vector<pollfd> polled;
      for (Descriptor& socket : sockets) {
        if (!socket) {
          socket = Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
          ::connect(socket.get(), address.get(), address.length);
          ++again_;
        }
        polled.push_back({.fd = socket.get(), .events = POLLIN, .revents = 0});
      }
      poll(polled.data(), polled.size(), 10);
      for (std::size_t i = 0; i < sockets.size(); ++i) {
        if (polled[i].revents) close_it(sockets[i]);
      }
    }
  }
  std::atomic<bool> over_ = false;
  std::atomic<int> again_ = 0;
  std::thread thread_;
};

TEST(Rendezvous, FloodOfReconnectsKeepsNoRankOut) {
  RankZero zero(2, {.handshake_s = 600});
  Flood flood(zero.endpoint(), 200);
  flood.wait_for(400);
  RankSet ranks = two_ranks(zero);
  expect_a_good_run(ranks);
}

TEST(Rendezvous, WhereAWorldMeets) {
  launch::World world{.launcher = "mpirun", .rank = 1, .size = 2, .local_rank = 1, .local_size = 2};
  world.master_port = 4711;
  world.job = "job";
  const Rendezvous meeting = rendezvous_of(world, std::nullopt, "build");
  EXPECT_EQ(describe(meeting.endpoint), "127.0.0.1:4711");
  EXPECT_EQ(meeting.token, derived_token("job"));
  EXPECT_GE(meeting.token.size(), kMinToken);
  EXPECT_NE(meeting.token, derived_token("job 2"));
  EXPECT_EQ(rendezvous_of(world, "0123456789abcdef", "build").token, "0123456789abcdef");
  EXPECT_THROW(rendezvous_of(world, "short", "build"), InputError);
  world.local_size = 1;
  world.master_address = "node3";
  EXPECT_EQ(describe(rendezvous_of(world, std::nullopt, "build").endpoint), "node3:4711");
  EXPECT_NE(random_token(), random_token());
}

TEST(Address, TheWayToAHost) {
  EXPECT_EQ(local_address_to("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(local_address_to("localhost").empty(), false);
  EXPECT_THROW(local_address_to("no.such.host.invalid"), RunError);
  EXPECT_THROW(local_address_to(""), RunError);
  EXPECT_EQ(describe({.address = "::1", .port = 7}), "[::1]:7");
  const Listener listener({});
  EXPECT_EQ(listener.endpoint().address, "127.0.0.1");
  EXPECT_GT(listener.endpoint().port, 0);
  EXPECT_THROW(Listener({.address = ""}), RunError);
}

}  // namespace
}  // namespace twobw::control
