#include "engine/control/socket.h"

#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "core/base/error.h"

namespace twobw::control {

Descriptor::~Descriptor() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

SocketAddress address_of(int socket) {
  SocketAddress address;
  address.length = sizeof address.storage;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address.storage), &address.length) != 0) return {};
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
