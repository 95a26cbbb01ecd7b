#include "app/rendezvous/join.h"

#include <arpa/inet.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <set>
#include <thread>

#include "app/rendezvous/stores.h"
#include "core/base/mapped_file.h"
#include "engine/checkpoint/formats/manifest.h"
#include "engine/control/connection.h"
#include "engine/control/rendezvous.h"
#include "engine/transport/gloo_wire.h"

namespace twobw::rendezvous {
namespace {

control::Options options_of(const NetworkConfig& network) {
  control::Options options{.join_timeout_s = network.join_timeout,
                           .heartbeat_timeout_s = network.heartbeat_timeout};
  options.heartbeat_s = std::min(options.heartbeat_s, network.heartbeat_timeout / 4);
  return options;
}

// In tenths of a second, for messages; at least one.
double seconds_to(control::Clock::time_point until) {
  const std::chrono::duration<double> left = until - control::Clock::now();
  return std::max(1.0, std::ceil(10 * left.count())) / 10;
}

// Through torchrun's store: rank 0 listens at a free port.
std::unique_ptr<control::Control> connect_by_agent(const launch::World& world, const NetworkConfig& network,
                                                   const std::string& address) {
  const control::Clock::time_point until = control::Clock::now() + control::seconds(network.join_timeout);
  const AgentStore store = connect_to_agent(world, network.join_timeout);
  control::Rendezvous point{.rank = world.rank, .size = world.size, .build = build_id()};
  control::Options options = options_of(network);
  if (world.rank > 0) {
    const RendezvousPoint published = find_rendezvous_point(store, world.job, seconds_to(until));
    point.endpoint = published.endpoint;
    point.token = published.token;
    options.join_timeout_s = seconds_to(until);
    return control::connect(point, options);
  }
  control::Listener listener({.address = address, .port = 0});
  point.token = control::random_token();
  publish(store, world.job, {.endpoint = listener.endpoint(), .token = point.token}, seconds_to(until));
  options.join_timeout_s = seconds_to(until);
  return control::connect(point, options, std::move(listener));
}

std::unique_ptr<control::Control> connect_control(const launch::World& world, const NetworkConfig& network,
                                                  const std::string& address) {
  if (world.agent_store) return connect_by_agent(world, network, address);
  const auto token = launch::process_environment()("TWOBW_JOB_TOKEN");
  control::Rendezvous point = control::rendezvous_of(world, token, build_id());
  if (world.rank == 0) point.endpoint.address = address;
  return control::connect(point, options_of(network));
}

// Gloo may write to connections that the peer has closed. The failed write is reported; SIGPIPE would end
// this process silently. Output without a reader is dropped (core/base/output.h).
void ignore_broken_connections() {
  std::signal(SIGPIPE, SIG_IGN);
}

// Retries until the time is over: host names may appear later, with their hosts.
std::string address_towards(const std::string& host, double limit_s) {
  const control::Clock::time_point until = control::Clock::now() + control::seconds(limit_s);
  while (true) {
    try {
      return control::local_address_to(host);
    } catch (const control::UnknownHost& error) {
      const auto left = until - control::Clock::now();
      if (left <= control::Clock::duration::zero())
        fail_run("{}, and did not become known within {:g} s", error.what(), limit_s);
      std::this_thread::sleep_for(std::min<control::Clock::duration>(left, std::chrono::milliseconds(500)));
    }
  }
}

// NCCL uses the same interface, unless the user has named another.
void set_nccl_interface(const std::string& address) {
  for (const Interface& interface : interfaces()) {
    if (interface.address != address) continue;
    setenv("NCCL_SOCKET_IFNAME", fmt::format("={}", interface.name).c_str(), /*overwrite=*/0);
    return;
  }
}

transport::Wires connect_wires(transport::GlooSetup setup) {
  transport::Wires wires;
  setup.on_open_port = [&wires](const std::string& reason) { wires.open_ports = reason; };
  wires.activations = transport::gloo_wire(setup, "activations");
  wires.gradients = transport::gloo_wire(setup, "gradients");
  wires.exchange = transport::gloo_wire(setup, "exchange");
  wires.answers = transport::gloo_wire(setup, "answers");
  wires.state = transport::gloo_wire(setup, "state");
  return wires;
}

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

std::string own_address(const launch::World& world, const NetworkConfig& network) {
  if (network.interface != "auto") {
    std::string named = address_of_interface(network.interface, interfaces());
    if (!world.on_one_host() && is_loopback(named)) {
      fail_input(
          "network.interface is '{}', which no other host reaches, and the processes are on several; it must "
          "be an interface to the others",
          network.interface);
    }
    return named;
  }
  if (world.on_one_host()) return control::kLoopback;
  std::string address = address_towards(world.master_address, network.join_timeout);
  if (is_loopback(address)) {
    fail_input(
        "process {} does not know the address by which other hosts reach this one: '{}', the host of process "
        "0, "
        "is {} here; set network.interface",
        world.rank, world.master_address, address);
  }
  return address;
}

std::string build_id() {
  const MappedFile program("/proc/self/exe");
  if (!program.problem().empty()) fail_run("this program cannot read its own file: {}", program.problem());
  return "twobw " + checkpoint::checksum(program.bytes().data(), program.bytes().size());
}

std::shared_ptr<transport::Processes> join(const launch::World& world, const NetworkConfig& network,
                                           const control::Facts& facts) {
  if (world.size == 1) return nullptr;
  if (!transport::built_with_gloo()) {
    fail_input(
        "this program was built without Gloo, so it cannot run in {} processes; install libgloo-dev and "
        "build it again, or start it without a launcher",
        world.size);
  }
  ignore_broken_connections();
  const auto arrival = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::duration<double>(network.join_timeout));
  const std::string address = own_address(world, network);
  set_nccl_interface(address);
  std::unique_ptr<control::Control> connected = connect_control(world, network, address);
  control::Control& control = *connected;
  const auto store = c10::make_intrusive<ControlStore>(control, arrival);
  auto processes = std::make_shared<transport::Processes>(std::move(connected));
  control.start();
  try {
    control::agree(control, processes->mail(), facts, network.join_timeout);
    processes->set_wires(connect_wires(
        {.store = store, .rank = world.rank, .size = world.size, .address = address, .timeout = arrival}));
  } catch (const std::exception& error) {
    processes->abort(control::Failure::of(error));
    throw;
  }
  return processes;
}

void broadcast_config_error(const launch::World& world, const InputError& error) {
  if (world.size == 1 || !transport::built_with_gloo()) return;
  ignore_broken_connections();
  const NetworkConfig network{.join_timeout = kBroadcastWithin};
  try {
    const auto control = connect_control(world, network, own_address(world, network));
    control->start();
    control->abort(control::Failure::of(error));
    control->leave();
  } catch (const std::exception&) {
    // Either the error itself, reported back, or the others have not joined.
  }
}

}  // namespace twobw::rendezvous
