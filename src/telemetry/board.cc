#include "telemetry/board.h"

#include <fmt/format.h>

namespace twobw::telemetry {

void Board::begin(int stage, const schedule::Instruction& instruction) {
  std::lock_guard lock(mutex_);
  Row& row = rows_[stage];
  row.instruction = instruction;
  row.running = true;
  row.since = std::chrono::steady_clock::now();
}

void Board::finish(int stage, const std::string& how) {
  std::lock_guard lock(mutex_);
  Row& row = rows_[stage];
  row.doing = row.running ? fmt::format("{} at {}", how, describe(row.instruction)) : how;
  row.running = false;
  row.since = std::chrono::steady_clock::now();
}

std::string Board::report() const {
  std::lock_guard lock(mutex_);
  std::string text;
  for (std::size_t stage = 0; stage < rows_.size(); ++stage) {
    const Row& row = rows_[stage];
    const std::chrono::duration<double> age = std::chrono::steady_clock::now() - row.since;
    text += fmt::format("  stage {}: {}, for {:.1f} s\n", stage,
                        row.running ? describe(row.instruction) : row.doing, age.count());
  }
  return text;
}

}  // namespace twobw::telemetry
