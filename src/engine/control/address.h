// Addresses of sockets.
#pragma once

#include <sys/socket.h>

#include <string>
#include <vector>

#include "core/base/error.h"

namespace twobw::control {

inline constexpr const char* kLoopback = "127.0.0.1";

struct Endpoint {
  std::string address = kLoopback;  // a number or a name; never empty
  int port = 0;                     // 0: to listen at one that is free
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

// Throws UnknownHost, with the resolver's words, where there is none.
std::vector<SocketAddress> resolve(const Endpoint& endpoint);

// In numbers.
Endpoint numeric(const SocketAddress& address);

// The address of this host from which `host` is reached: where rank 0 listens for ranks on other hosts. No
// packet is sent. Throws RunError where there is no way.
std::string local_address_to(const std::string& host);

}  // namespace twobw::control
