#include "app/rendezvous/stores.h"

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "app/rendezvous/join.h"
#include "core/base/error.h"
#include "tests/support/refusal.h"

namespace twobw::rendezvous {
namespace {

constexpr double kSoon = 10;  // seconds

TEST(AgentStore, CarriesWhereRankZeroListens) {
  const AgentStore store = c10::make_intrusive<c10d::HashStore>();
  publish(store, "job.0", {.endpoint = {.address = "10.0.0.7", .port = 4321}, .token = "a secret of the run"},
          kSoon);
  publish(store, "job.1", {.endpoint = {.address = "fd00::7", .port = 65535}, .token = "another of them"},
          kSoon);
  const RendezvousPoint first = find_rendezvous_point(store, "job.0", kSoon),
                        second = find_rendezvous_point(store, "job.1", kSoon);
  EXPECT_EQ(first.endpoint.address, "10.0.0.7");
  EXPECT_EQ(first.endpoint.port, 4321);
  EXPECT_EQ(first.token, "a secret of the run");
  EXPECT_EQ(second.endpoint.address, "fd00::7");
  EXPECT_EQ(second.endpoint.port, 65535);
  EXPECT_EQ(second.token, "another of them");
}

TEST(AgentStore, RefusesWhatIsNoAddress) {
  for (const char* text : {"", "10.0.0.7", "10.0.0.7:", "10.0.0.7:0", "10.0.0.7:65536", "10.0.0.7:80x"}) {
    const AgentStore store = c10::make_intrusive<c10d::HashStore>();
    store->set("twobw/job/endpoint", std::string(text));
    store->set("twobw/job/token", std::string("t"));
    EXPECT_THROW(find_rendezvous_point(store, "job", kSoon), RunError) << text;
  }
}

TEST(AgentStore, AJobOfItsOwnIsWaitedFor) {
  const AgentStore store = c10::make_intrusive<c10d::HashStore>();
  publish(store, "job.0", {.endpoint = {.address = "10.0.0.7", .port = 1}, .token = "t"}, kSoon);
  EXPECT_THROW(find_rendezvous_point(store, "job.1", 0.01), RunError);
}

const std::vector<Interface> kInterfaces = {{.name = "lo", .address = "127.0.0.1", .loopback = true},
                                            {.name = "eth0", .address = "10.0.0.7"},
                                            {.name = "ib0", .address = "192.168.1.7"},
                                            {.name = "eth0", .address = "fd00::7"}};

TEST(Interfaces, AreFoundByNameAndByAddress) {
  EXPECT_EQ(address_of_interface("eth0", kInterfaces), "10.0.0.7");
  EXPECT_EQ(address_of_interface("192.168.1.7", kInterfaces), "192.168.1.7");
  EXPECT_EQ(address_of_interface("fd00::7", kInterfaces), "fd00::7");
  EXPECT_EQ(error_of([] { address_of_interface("eth1", kInterfaces); }),
            "network.interface is 'eth1'; this host has eth0, ib0, lo");
}

TEST(Interfaces, OnOneHostTheyAreTheLoopbackUnlessNamed) {
  const launch::World together{.size = 2, .local_size = 2};
  EXPECT_EQ(own_address(together, {}), "127.0.0.1");
  EXPECT_EQ(own_address(together, {.interface = "lo"}), "127.0.0.1");
  EXPECT_THROW(own_address(together, {.interface = "no such"}), InputError);
  const launch::World apart{.size = 4, .local_size = 2, .master_address = "127.0.0.1"};
  EXPECT_THROW(own_address(apart, {.interface = "no such"}), InputError);
  EXPECT_THROW(own_address(apart, {}), InputError);  // other hosts do not reach a loopback
  for (const char* loopback : {"lo", "127.0.0.1"})
    EXPECT_THROW(own_address(apart, {.interface = loopback}), InputError) << loopback;
}

TEST(Interfaces, AHostThatIsNotKnownIsLookedUpUntilTheTimeIsOver) {
  const launch::World apart{.size = 2, .local_size = 1, .master_address = "no.such.host.invalid"};
  const std::string what = error_of<RunError>([&] { own_address(apart, {.join_timeout = 0.01}); });
  EXPECT_NE(what.find("'no.such.host.invalid' is not known"), std::string::npos) << what;
  EXPECT_NE(what.find("did not become known within 0.01 s"), std::string::npos) << what;
}

TEST(BuildId, IsTheProgramsOwn) {
  EXPECT_EQ(build_id(), build_id());
  EXPECT_EQ(build_id().size(), std::string("twobw ").size() + 16);
}

TEST(Join, AloneThereIsNobodyToMeet) {
  EXPECT_EQ(join({}, {}, {}), nullptr);
}

}  // namespace
}  // namespace twobw::rendezvous
