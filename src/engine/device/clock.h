// Time and order of a worker's work: of the thread on a CPU, where work is complete when its call returns; of
// the queue on a GPU.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace twobw::device {

// Completion of the work that a thread has queued on a GPU; null on a thread that computes on a CPU.
using StreamEvent = std::shared_ptr<void>;

// Completes after all work queued so far by the calling thread.
StreamEvent record_stream_event();
// Orders all work that the calling thread queues from now on after `ready`. Does not block.
void await_stream_event(const StreamEvent& ready);
// Blocks until `ready`, without spinning; false if `gives_up` returned true before.
bool block_until(const StreamEvent& ready, const std::function<bool()>& gives_up);

struct Timestamp {
  double seconds = 0;           // on a CPU
  std::shared_ptr<void> event;  // on a GPU
};

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Timestamp now() = 0;
  virtual void await(const Timestamp&) {}  // blocks until the mark has passed
  // Seconds from the clock's start to a mark that has passed.
  virtual double seconds(const Timestamp& mark) const = 0;
  // Seconds between two such marks, more precise than the difference of seconds().
  virtual double between(const Timestamp& from, const Timestamp& to) const {
    return seconds(to) - seconds(from);
  }

  // A device with a queue pauses from hold() to release(), so that the time between marks is that of the work
  // and not that of queueing it.
  virtual bool can_hold() const { return false; }
  virtual void hold() {}
  // False: the device resumed early, because the thread waited for it or queued too much.
  virtual bool release() { return true; }
};

class ThreadClock final : public Clock {
 public:
  explicit ThreadClock(std::chrono::steady_clock::time_point start) : start_(start) {}
  Timestamp now() override {
    return {.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count()};
  }
  double seconds(const Timestamp& mark) const override { return mark.seconds; }

 private:
  std::chrono::steady_clock::time_point start_;
};

}  // namespace twobw::device
