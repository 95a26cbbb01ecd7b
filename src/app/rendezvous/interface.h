// The addresses of this host's network interfaces.
#pragma once

#include <string>
#include <vector>

namespace twobw::rendezvous {

struct Interface {
  std::string name;     // "eth0"
  std::string address;  // in numbers
  bool loopback = false;
};

// Those that are up, addresses of IPv4 first; without addresses that lead no further than the link.
std::vector<Interface> interfaces();

// The address of the one that `text`, a name or an address, stands for. Throws InputError with those there
// are.
std::string address_of_interface(const std::string& text, const std::vector<Interface>& all);

// Whether only this host is reached by it.
bool is_loopback(const std::string& address);

}  // namespace twobw::rendezvous
