// Writes checkpoints on a background thread. At most one waits; a newer one replaces it.
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
  double seconds = 0;   // until it is on disk
  std::string problem;  // empty on success
};

class Writer {
 public:
  // `on_written` is called for every checkpoint, on the writer's thread.
  Writer(std::string store, int keep, std::function<void(const Written&)> on_written);
  ~Writer();  // writes a waiting one first

  // `make` runs on the writer's thread.
  void add(std::int64_t update, std::function<Contents()> make);
  // Blocks until all checkpoints are written.
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
  std::function<void(const Written&)> on_written_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Job> waiting_;
  bool busy_ = false, ending_ = false;
  std::thread thread_;
};

}  // namespace twobw::checkpoint
