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
  // From one such mark to another, more exactly than by the above.
  virtual double between(const Timestamp& from, const Timestamp& to) const {
    return seconds(to) - seconds(from);
  }

  // Where the device works off a queue: it rests from hold() until release(), and then finds all in the queue
  // that was put there meanwhile. So marks are apart by what the work takes, and not by what queueing takes.
  virtual bool can_hold() const { return false; }
  virtual void hold() {}
  // False: the device went on before, since the thread had waited for it or had queued more than can wait.
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
