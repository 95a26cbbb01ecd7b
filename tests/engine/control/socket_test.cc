// A listening socket that drops what arrives.
#include "engine/control/socket.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace twobw::control {
namespace {

Descriptor connect_to(const Listener& listener) {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const SocketAddress address = address_of(listener.get());
  connect(socket.get(), address.get(), address.length);
  return socket;
}

bool is_ready(int socket, short event, int wait_ms) {
  pollfd polled = {.fd = socket, .events = event, .revents = 0};
  return poll(&polled, 1, wait_ms) == 1 && polled.revents == event;
}

TEST(ListeningSockets, AreThoseOfThisProcess) {
  const Listener listener({});
  const Descriptor client = connect_to(listener);
  EXPECT_TRUE(listening_sockets().contains(listener.get()));
  EXPECT_FALSE(listening_sockets().contains(client.get()));
  EXPECT_FALSE(listening_sockets().contains(STDIN_FILENO));
}

TEST(DropArrivals, KeepsConnectionsAndAnswersNoOthers) {
  constexpr int kLong = 10'000, kMoment = 20;  // ms; over the loopback an answer takes none
  const Listener listener({});
  const Descriptor client = connect_to(listener), waiting = connect_to(listener);
  ASSERT_TRUE(is_ready(client.get(), POLLOUT, kLong));
  ASSERT_TRUE(is_ready(waiting.get(), POLLOUT, kLong));
  const Descriptor server(accept(listener.get(), nullptr, nullptr));
  ASSERT_EQ(drop_arrivals(listener.get()), std::nullopt);

  const Descriptor late = connect_to(listener);
  EXPECT_FALSE(is_ready(late.get(), POLLOUT, kMoment));
  char heard = 0;
  EXPECT_EQ(write(client.get(), "c", 1), 1);
  EXPECT_TRUE(is_ready(server.get(), POLLIN, kLong));
  EXPECT_EQ(read(server.get(), &heard, 1), 1);
  EXPECT_EQ(write(server.get(), "s", 1), 1);
  EXPECT_TRUE(is_ready(client.get(), POLLIN, kLong));
  EXPECT_EQ(read(client.get(), &heard, 1), 1);
  EXPECT_EQ(heard, 's');
  EXPECT_TRUE(Descriptor(accept(listener.get(), nullptr, nullptr)));
}

TEST(DropArrivals, SaysWhyItCannot) {
  EXPECT_EQ(drop_arrivals(-1), "setsockopt(SO_ATTACH_FILTER): Bad file descriptor");
}

}  // namespace
}  // namespace twobw::control
