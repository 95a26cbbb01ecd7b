// Controls in memory: threads as ranks, joined by pairs of sockets that have no address.
#pragma once

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "core/base/error.h"
#include "engine/control/peers.h"

namespace twobw::control {

inline std::vector<std::unique_ptr<Control>> controls_in_memory(int size) {
  const Options options;
  std::vector<std::unique_ptr<Connection>> coordinator_ends, client_ends;
  for (int rank = 1; rank < size; ++rank) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0)
      fail_run("no pair of sockets for process {}: {}", rank, std::strerror(errno));
    coordinator_ends.push_back(std::make_unique<Connection>(Descriptor(pair[0])));
    client_ends.push_back(std::make_unique<Connection>(Descriptor(pair[1])));
  }
  std::vector<std::unique_ptr<Control>> controls;
  controls.push_back(std::make_unique<Control>(0, size, options, [&](Control& self) {
    return std::make_unique<Coordinator>(self, options, std::move(coordinator_ends));
  }));
  for (int rank = 1; rank < size; ++rank) {
    auto control = std::make_unique<Control>(rank, size, options, [&](Control& self) {
      return std::make_unique<Client>(self, options,
                                      std::move(client_ends[static_cast<std::size_t>(rank - 1)]));
    });
    control->wait_begun();
    controls.push_back(std::move(control));
  }
  return controls;
}

}  // namespace twobw::control
