// What every worker is doing right now, for the report of a pipeline that is stuck.
#pragma once

#include <chrono>
#include <mutex>
#include <string>
#include <vector>

#include "schedule/instruction.h"

namespace twobw::telemetry {

class Board {
 public:
  explicit Board(int stages) : rows_(stages) {}

  void begin(int stage, const schedule::Instruction& instruction);
  void finish(int stage, const std::string& how);
  // One line a worker: "stage 1: RecvActivation microbatch 5 (batch 1), for 2.0 s".
  std::string report() const;

 private:
  struct Row {
    std::string doing = "not started";
    std::chrono::steady_clock::time_point since = std::chrono::steady_clock::now();
    schedule::Instruction instruction;
    bool running = false;
  };
  mutable std::mutex mutex_;
  std::vector<Row> rows_;
};

}  // namespace twobw::telemetry
