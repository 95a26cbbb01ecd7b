#include "engine/checkpoint/writer.h"

#include <pthread.h>

#include <chrono>
#include <exception>
#include <utility>

namespace twobw::checkpoint {

Writer::Writer(std::string store, int keep, std::function<void(const Written&)> on_written)
    : store_(std::move(store)), keep_(keep), on_written_(std::move(on_written)), thread_([this] { run(); }) {}

Writer::~Writer() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Writer::add(std::int64_t update, std::function<Contents()> make) {
  {
    std::lock_guard lock(mutex_);
    waiting_ = Job{.update = update, .make = std::move(make)};
  }
  changed_.notify_all();
}

void Writer::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !waiting_ && !busy_; });
}

void Writer::run() {
  pthread_setname_np(pthread_self(), "checkpoints");
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return waiting_ || ending_; });
    if (!waiting_) return;
    const Job job = *std::exchange(waiting_, std::nullopt);
    busy_ = true;
    lock.unlock();
    on_written_(write_one(job));
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

Written Writer::write_one(const Job& job) const {
  const auto start = std::chrono::steady_clock::now();
  Written written{.update = job.update};
  try {
    written.bytes = write(store_, job.make());
    prune(store_, keep_);
  } catch (const std::exception& error) {
    written.problem = error.what();
  }
  written.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return written;
}

}  // namespace twobw::checkpoint
