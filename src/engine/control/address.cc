#include "engine/control/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

#include <cerrno>
#include <cstring>

#include "core/base/error.h"
#include "engine/control/socket.h"

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
  // The port is nobody's: a datagram socket only looks the way up.
  for (const SocketAddress& address : resolve({.address = host, .port = 9})) {
    const Descriptor socket(::socket(address.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (socket && ::connect(socket.get(), address.get(), address.length) == 0)
      return numeric(address_of(socket.get())).address;
    why = std::strerror(errno);
  }
  fail_run("no address of this host leads to '{}': {}", host, why);
}

}  // namespace twobw::control
