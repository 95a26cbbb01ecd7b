// Writes checkpoints on a thread of its own. While one is written the next may wait; one that comes then
// takes the place of the one that waits, for it is newer.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "engine/checkpoint/store.h"

namespace twobw::checkpoint {

struct Written {
  std::int64_t update = 0;
  std::uint64_t bytes = 0;
  double seconds = 0;   // from the beginning of the work on it to its being on disk
  std::string problem;  // why it was not written; empty: it was
};

class Writer {
 public:
  // `told`: of every one, from the writer's thread.
  Writer(std::string store, int keep, std::function<void(const Written&)> told);
  ~Writer();  // writes what waits first

  // `make` gives the contents, on the writer's thread.
  void add(std::int64_t update, std::function<Contents()> make);
  // Waits until nothing is left to write.
  void finish();

 private:
  struct Job {
    std::int64_t update = 0;
    std::function<Contents()> make;
  };
  void run();
  Written write_one(const Job& job) const;

  std::string store_;
  int keep_;
  std::function<void(const Written&)> told_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Job> waiting_;
  bool busy_ = false, ending_ = false;
  std::thread thread_;
};

}  // namespace twobw::checkpoint
