#include "core/telemetry/board.h"

#include <fmt/format.h>

#include "core/schedule/spec.h"

namespace twobw::telemetry {

void Board::begin(int worker, const schedule::Instruction& instruction) {
  std::lock_guard lock(mutex_);
  Row& row = rows_[worker];
  row.instruction = instruction;
  row.running = true;
  row.since = std::chrono::steady_clock::now();
}

void Board::finish(int worker, const std::string& how) {
  std::lock_guard lock(mutex_);
  Row& row = rows_[worker];
  row.doing = row.running ? fmt::format("{} at {}", how, describe(row.instruction)) : how;
  row.running = false;
  row.since = std::chrono::steady_clock::now();
}

std::string Board::report(int first_worker, int workers) const {
  std::lock_guard lock(mutex_);
  std::string text;
  for (int worker = first_worker; worker < first_worker + workers; ++worker) {
    const Row& row = rows_[worker];
    const std::chrono::duration<double> age = std::chrono::steady_clock::now() - row.since;
    text += fmt::format("  {}: {}, for {:.1f} s\n",
                        schedule::worker_name(replicas_, worker / stages_, worker % stages_),
                        row.running ? describe(row.instruction) : row.doing, age.count());
  }
  return text;
}

}  // namespace twobw::telemetry
