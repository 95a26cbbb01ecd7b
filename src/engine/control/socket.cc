#include "engine/control/socket.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace twobw::control {

std::string describe(const Endpoint& endpoint) {
  const bool bracket = endpoint.address.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", bracket ? "[" : "", endpoint.address, bracket ? "]" : "", endpoint.port);
}

std::vector<SocketAddress> resolve(const Endpoint& endpoint) {
  if (endpoint.address.empty()) fail_run("an address to connect processes is empty");
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(endpoint.address.c_str(), std::to_string(endpoint.port).c_str(), &hints, &found);
  if (error != 0)
    throw UnknownHost(fmt::format("the host '{}' is not known: {}", endpoint.address, gai_strerror(error)));
  std::vector<SocketAddress> addresses;
  for (const addrinfo* entry = found; entry; entry = entry->ai_next) {
    SocketAddress& address = addresses.emplace_back();
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.length = entry->ai_addrlen;
  }
  freeaddrinfo(found);
  return addresses;
}

Endpoint numeric(const SocketAddress& address) {
  char host[NI_MAXHOST] = "", port[NI_MAXSERV] = "0";
  getnameinfo(address.get(), address.length, host, sizeof host, port, sizeof port,
              NI_NUMERICHOST | NI_NUMERICSERV);
  return {.address = host, .port = std::atoi(port)};
}

std::string local_address_to(const std::string& host) {
  std::string why;
  // Connecting a datagram socket only looks up the route; any port will do.
  for (const SocketAddress& address : resolve({.address = host, .port = 9})) {
    const Descriptor socket(::socket(address.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (socket && ::connect(socket.get(), address.get(), address.length) == 0)
      return numeric(address_of(socket.get())).address;
    why = std::strerror(errno);
  }
  fail_run("no address of this host leads to '{}': {}", host, why);
}

Descriptor::~Descriptor() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

SocketAddress address_of(int socket) {
  SocketAddress address{.length = sizeof address.storage};
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address.storage), &address.length) != 0) return {};
  return address;
}

std::optional<SocketAddress> peer_of(int socket) {
  SocketAddress address{.length = sizeof address.storage};
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&address.storage), &address.length) != 0)
    return std::nullopt;
  return address;
}

Listener::Listener(const Endpoint& endpoint) {
  std::string why;
  for (const SocketAddress& address : resolve(endpoint)) {
    Descriptor socket(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const int yes = 1;
    if (socket) setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (socket && bind(socket.get(), address.get(), address.length) == 0 && listen(socket.get(), 1024) == 0) {
      endpoint_ = numeric(address_of(socket.get()));
      socket_ = std::move(socket);
      return;
    }
    why = std::strerror(errno);
  }
  fail_run("process 0 cannot listen at {}: {}; MASTER_PORT gives another port", describe(endpoint), why);
}

void send_at_once(int socket) {
  const int yes = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

std::set<int> listening_sockets() {
  std::set<int> sockets;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", none)) {
    const int descriptor = std::atoi(entry.path().filename().c_str());
    int listens = 0;
    socklen_t length = sizeof listens;
    getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length);
    if (listens != 0) sockets.insert(descriptor);
  }
  return sockets;
}

std::optional<std::string> drop_arrivals(int socket) {
  sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
  const sock_fprog program = {.len = 1, .filter = &drop};
  if (setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0) return std::nullopt;
  return fmt::format("setsockopt(SO_ATTACH_FILTER): {}", std::strerror(errno));
}

Waker::Waker() : event_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (!event_) fail_run("no descriptor is free to wake a thread: {}", std::strerror(errno));
}

void Waker::wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(event_.get(), &one, sizeof one);
}

void Waker::clear() {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto read = ::read(event_.get(), &count, sizeof count);
}

}  // namespace twobw::control
