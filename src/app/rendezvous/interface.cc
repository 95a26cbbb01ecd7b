#include "app/rendezvous/interface.h"

#include <arpa/inet.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>

#include "core/base/error.h"

namespace twobw::rendezvous {
namespace {

std::optional<std::string> address_in_numbers(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address->sa_family == AF_INET) {
    const auto* of = reinterpret_cast<const sockaddr_in*>(address);
    inet_ntop(AF_INET, &of->sin_addr, text, sizeof text);
    return text;
  }
  if (address->sa_family != AF_INET6) return std::nullopt;
  const auto* of = reinterpret_cast<const sockaddr_in6*>(address);
  if (IN6_IS_ADDR_LINKLOCAL(&of->sin6_addr)) return std::nullopt;
  inet_ntop(AF_INET6, &of->sin6_addr, text, sizeof text);
  return text;
}

bool is_six(const Interface& interface) {
  return interface.address.find(':') != std::string::npos;
}

}  // namespace

std::vector<Interface> interfaces() {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> list(first, &freeifaddrs);
  std::vector<Interface> all;
  for (const ifaddrs* one = list.get(); one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_UP) == 0) continue;
    if (const auto address = address_in_numbers(one->ifa_addr))
      all.push_back(
          {.name = one->ifa_name, .address = *address, .loopback = (one->ifa_flags & IFF_LOOPBACK) != 0});
  }
  std::ranges::stable_partition(all, [](const Interface& interface) { return !is_six(interface); });
  return all;
}

std::string address_of_interface(const std::string& text, const std::vector<Interface>& all) {
  for (const Interface& interface : all) {
    if (interface.name == text || interface.address == text) return interface.address;
  }
  std::set<std::string> names;
  for (const Interface& interface : all) names.insert(interface.name);
  fail_input("network.interface is '{}'; this host has {}", text, fmt::join(names, ", "));
}

bool is_loopback(const std::string& address) {
  return address == "localhost" || address == "::1" || address.starts_with("127.");
}

}  // namespace twobw::rendezvous
