// Descriptors that close themselves, and sockets that never block.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>

#include "engine/control/address.h"

namespace twobw::control {

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

// Where the socket is bound.
SocketAddress address_of(int socket);

// Where rank 0 waits for the others: at one address, and at all of them only where the caller names 0.0.0.0
// or ::.
class Listener {
 public:
  // Throws RunError where that is not possible, such as with a port that is taken.
  explicit Listener(const Endpoint& endpoint);

  // In numbers, with the port that was free where 0 was asked for.
  const Endpoint& endpoint() const { return endpoint_; }
  int get() const { return socket_.get(); }

 private:
  Descriptor socket_;
  Endpoint endpoint_;
};

// Small messages leave at once. Of no effect where the socket is none of TCP.
void send_at_once(int socket);

// Sockets of this process at which it listens.
std::set<int> listening_sockets();

// From now on nobody connects to the listening socket, and who tries gets no answer; its connections stay.
// Returns the system's reason if that is refused.
std::optional<std::string> drop_arrivals(int socket);

// Wakes a thread that polls.
class Waker {
 public:
  Waker();
  int get() const { return event_.get(); }
  void wake();   // from any thread
  void clear();  // from the thread that polls

 private:
  Descriptor event_;
};

}  // namespace twobw::control
