// Addresses of sockets, descriptors that close themselves, and non-blocking sockets.
#pragma once

#include <sys/socket.h>

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"

namespace twobw::control {

inline constexpr const char* kLoopback = "127.0.0.1";

struct Endpoint {
  std::string address = kLoopback;  // a number or a name; not empty
  int port = 0;                     // 0: any free port, for a listener
};

// "node3:4000", "[::1]:4000".
std::string describe(const Endpoint& endpoint);

struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t length = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
};

class UnknownHost : public RunError {
 public:
  using RunError::RunError;
};

// Throws UnknownHost, with the resolver's message, for an unknown host.
std::vector<SocketAddress> resolve(const Endpoint& endpoint);

// The address and port in numbers.
Endpoint numeric(const SocketAddress& address);

// The address of this host on its route to `host`: where rank 0 listens for ranks on other hosts. Sends no
// packet. Throws RunError without a route.
std::string local_address_to(const std::string& host);

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
  Descriptor(Descriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Descriptor();

  int get() const { return descriptor_; }
  explicit operator bool() const { return descriptor_ >= 0; }

 private:
  int descriptor_ = -1;
};

// The address that the socket is bound to, and that of its peer (null: not connected).
SocketAddress address_of(int socket);
std::optional<SocketAddress> peer_of(int socket);

// Rank 0's listening socket: at one address, or at all if the caller names 0.0.0.0 or ::.
class Listener {
 public:
  // Throws RunError if that fails, for instance because the port is in use.
  explicit Listener(const Endpoint& endpoint);

  // In numbers, with the port that was chosen for 0.
  const Endpoint& endpoint() const { return endpoint_; }
  int get() const { return socket_.get(); }

 private:
  Descriptor socket_;
  Endpoint endpoint_;
};

// Sets TCP_NODELAY. No effect on sockets other than TCP.
void send_at_once(int socket);

// Listening sockets of this process.
std::set<int> listening_sockets();

// Drops all packets that arrive at the listening socket itself: no peer can connect any more, and existing
// connections stay. Returns the system's reason if that is refused.
std::optional<std::string> drop_arrivals(int socket);

// Wakes a thread blocked in poll(2).
class Waker {
 public:
  Waker();
  int get() const { return event_.get(); }
  void wake();   // thread-safe
  void clear();  // by the polling thread

 private:
  Descriptor event_;
};

}  // namespace twobw::control
