#include "app/rendezvous/join.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "app/rendezvous/agent_store.h"
#include "app/rendezvous/control_store.h"
#include "app/rendezvous/interface.h"
#include "core/base/error.h"
#include "core/base/mapped_file.h"
#include "engine/checkpoint/manifest.h"
#include "engine/control/connection.h"
#include "engine/control/rendezvous.h"
#include "engine/transport/gloo_wire.h"

namespace twobw::rendezvous {
namespace {

control::Options options_of(const NetworkConfig& network) {
  control::Options options{.arrival_s = network.arrival, .silence_s = network.silence};
  options.heartbeat_s = std::min(options.heartbeat_s, network.silence / 4);
  return options;
}

// In tenths, for sentences; at least one.
double seconds_to(control::Clock::time_point until) {
  const std::chrono::duration<double> left = until - control::Clock::now();
  return std::max(1.0, std::ceil(10 * left.count())) / 10;
}

// By way of torchrun's store: rank 0 listens at a port that is free.
std::unique_ptr<control::Control> meet_by_agent(const launch::World& world, const NetworkConfig& network,
                                                const std::string& address) {
  const control::Clock::time_point until = control::Clock::now() + control::seconds(network.arrival);
  const AgentStore store = connect_to_agent(world, network.arrival);
  control::Meeting meeting{.rank = world.rank, .size = world.size, .build = build_id()};
  control::Options options = options_of(network);
  if (world.rank > 0) {
    const MeetingPoint point = find_meeting_point(store, world.job, seconds_to(until));
    meeting.endpoint = point.endpoint;
    meeting.token = point.token;
    options.arrival_s = seconds_to(until);
    return control::connect(meeting, options);
  }
  control::Listener listener({.address = address, .port = 0});
  meeting.token = control::random_token();
  publish(store, world.job, {.endpoint = listener.endpoint(), .token = meeting.token}, seconds_to(until));
  options.arrival_s = seconds_to(until);
  return control::connect(meeting, options, std::move(listener));
}

std::unique_ptr<control::Control> meet(const launch::World& world, const NetworkConfig& network,
                                       const std::string& address) {
  if (world.agent_store) return meet_by_agent(world, network, address);
  const auto token = launch::process_environment()("TWOBW_JOB_TOKEN");
  control::Meeting meeting = control::meeting_of(world, token, build_id());
  if (world.rank == 0) meeting.endpoint.address = address;
  return control::connect(meeting, options_of(network));
}

// Gloo writes to connections that the other side may have closed, after a death or a silence. The write then
// fails, which is reported; the signal would end this process without a word. Output that nobody reads any
// more is dropped (core/base/output.h).
void ignore_broken_connections() {
  std::signal(SIGPIPE, SIG_IGN);
}

// Names of hosts may appear with the hosts: tries again until the time is over.
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

// Its connections go by the interface that ours do, unless the user has named another.
void tell_nccl(const std::string& address) {
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

}  // namespace

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
  std::string address = address_towards(world.master_address, network.arrival);
  if (is_loopback(address)) {
    fail_input(
        "process {} cannot tell by which address other hosts reach this one: '{}', the host of process 0, "
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
  const auto arrival =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::duration<double>(network.arrival));
  const std::string address = own_address(world, network);
  tell_nccl(address);
  std::unique_ptr<control::Control> connected = meet(world, network, address);
  control::Control& control = *connected;
  const auto store = c10::make_intrusive<ControlStore>(control, arrival);
  control::Agreement agreement(control);
  auto processes = std::make_shared<transport::Processes>(std::move(connected));
  control.start();
  try {
    agreement.reach(facts, network.arrival);
    processes->set_wires(connect_wires(
        {.store = store, .rank = world.rank, .size = world.size, .address = address, .timeout = arrival}));
  } catch (const std::exception& error) {
    processes->abort(control::Failure::of(error));
    throw;
  }
  return processes;
}

void tell_mistake(const launch::World& world, const InputError& mistake) {
  if (world.size == 1 || !transport::built_with_gloo()) return;
  ignore_broken_connections();
  const NetworkConfig network{.arrival = kTellWithin};
  try {
    const auto control = meet(world, network, own_address(world, network));
    control->start();
    control->abort(control::Failure::of(mistake));
    control->leave();
  } catch (const std::exception&) {
    // The mistake itself, as told; or the others are not there, and nobody is left to tell.
  }
}

}  // namespace twobw::rendezvous
