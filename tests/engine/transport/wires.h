// Wires for tests, threads as ranks: in memory, and over Gloo on the loopback.
#pragma once

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "engine/transport/gloo_wire.h"
#include "engine/transport/wire.h"
#include "tests/engine/support/memory_wire.h"

namespace twobw::transport {

using AllWires = std::vector<std::unique_ptr<Wire>>;

// Does the work of every rank on a thread of its own; what one throws is thrown here.
inline void on_all_ranks(int size, const std::function<void(int rank)>& work) {
  std::vector<std::future<void>> ranks;
  for (int rank = 0; rank < size; ++rank) ranks.push_back(std::async(std::launch::async, work, rank));
  for (auto& rank : ranks) rank.wait();
  for (auto& rank : ranks) rank.get();
}

inline AllWires wires_over_gloo(int size, const std::string& name = "test") {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  AllWires wires(size);
  on_all_ranks(size, [&](int rank) {
    wires[rank] = gloo_wire({.store = store,
                             .rank = rank,
                             .size = size,
                             .address = "127.0.0.1",
                             .timeout = std::chrono::seconds(60)},
                            name);
  });
  return wires;
}

// As a parameter of tests.
struct WireKind {
  const char* name;
  AllWires (*make)(int size);
  bool is_missing;
};

inline std::vector<WireKind> wire_kinds() {
  return {{"Memory", &wires_in_memory, false},
          {"Gloo", [](int size) { return wires_over_gloo(size); }, !built_with_gloo()}};
}

}  // namespace twobw::transport
