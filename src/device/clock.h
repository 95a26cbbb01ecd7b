// When a worker's work begins and ends: as the thread goes on a CPU, as the queue does on a GPU.
#pragma once

#include <chrono>
#include <memory>

namespace twobw::device {

struct Timestamp {
  double seconds = 0;           // on a CPU
  std::shared_ptr<void> event;  // on a GPU
};

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Timestamp now() = 0;
  virtual void await(const Timestamp&) {}  // until it is passed
  // Since the clock's start. Of a mark that was passed.
  virtual double seconds(const Timestamp& mark) const = 0;
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
