// The current instruction of every worker, for the report of a stuck pipeline.
#pragma once

#include <chrono>
#include <mutex>
#include <string>
#include <vector>

#include "core/schedule/instruction.h"

namespace twobw::telemetry {

class Board {
 public:
  explicit Board(int stages, int replicas = 1)
      : stages_(stages), replicas_(replicas), rows_(static_cast<std::size_t>(stages) * replicas) {}

  // Workers by their number (core/schedule/spec.h).
  void begin(int worker, const schedule::Instruction& instruction);
  void finish(int worker, const std::string& how);
  // One line a worker: "stage 1: RecvActivation microbatch 5 (batch 1), for 2.0 s".
  std::string report() const { return report(0, static_cast<int>(rows_.size())); }
  std::string report(int first_worker, int workers) const;

 private:
  struct Row {
    std::string doing = "not started";
    std::chrono::steady_clock::time_point since = std::chrono::steady_clock::now();
    schedule::Instruction instruction;
    bool running = false;
  };
  int stages_, replicas_;
  mutable std::mutex mutex_;
  std::vector<Row> rows_;
};

}  // namespace twobw::telemetry
