// Threads as the processes of a run, for tests: joined in memory, or over Gloo on the loopback.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "engine/control/control.h"
#include "engine/transport/processes.h"
#include "tests/engine/support/memory_control.h"
#include "tests/engine/transport/wires.h"

namespace twobw::runtime {

class Ranks {
 public:
  Ranks(int size, const transport::WireKind& kind) {
    for (auto& control : control::controls_in_memory(size)) {
      all_.push_back(std::make_shared<transport::Processes>(std::move(control)));
      all_.back()->control().start();
    }
    // A store each, so names do not matter.
    transport::AllWires activations = kind.make(size), gradients = kind.make(size),
                        exchange = kind.make(size), answers = kind.make(size), state = kind.make(size);
    for (int rank = 0; rank < size; ++rank)
      all_[rank]->set_wires({std::move(activations[rank]), std::move(gradients[rank]),
                             std::move(exchange[rank]), std::move(answers[rank]), std::move(state[rank])});
  }

  int size() const { return static_cast<int>(all_.size()); }
  const std::shared_ptr<transport::Processes>& operator[](int rank) const { return all_[rank]; }

  // Runs `work` on every rank; a rank whose work succeeds leaves with the others.
  void run(const std::function<void(int rank)>& work) const {
    transport::on_all_ranks(size(), [&](int rank) {
      work(rank);
      all_[rank]->control().leave();
    });
  }

 private:
  std::vector<std::shared_ptr<transport::Processes>> all_;
};

}  // namespace twobw::runtime
