// Bounded prefetch queue over the caller's buffers: a thread fills numbered places ahead of one consumer. A
// place's content is a function of its number.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace twobw::runtime {

struct ReadAheadSetup {
  std::string name;      // of the thread
  int ahead = 0;         // places to fill in advance; 0: no thread, await() fills
  int held = 0;          // places that the caller keeps after it awaits the next
  double timeout = 300;  // seconds that await() may take
};

class ReadAhead {
 public:
  // Fills place `number % places()`. await() rethrows its exceptions.
  using Fill = std::function<void(std::int64_t number)>;

  ReadAhead(ReadAheadSetup setup, Fill fill);
  ~ReadAhead();  // waits for the place that is being filled
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  int places() const { return places_; }

  // Waits until the place of `number` is filled. Numbers ascend by one; any other begins a new sequence with
  // all places free. Throws transport::WaitTimeout.
  void await(std::int64_t number);

  // Allows the places up to `number` to be filled again.
  void release(std::int64_t number);

  // Seconds spent in await() since the beginning.
  double waited() const { return waited_; }

 private:
  void run();
  void begin_at(std::int64_t number);
  void fill_next(std::unique_lock<std::mutex>& lock);

  ReadAheadSetup setup_;
  int places_;
  Fill fill_;
  double waited_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t sequence_ = 0;   // number of sequences begun
  std::int64_t wanted_ = -1;    // number that continues the sequence
  std::int64_t first_ = 0;      // not released
  std::int64_t next_ = 0;       // to be filled; those from first_ up to it are
  std::int64_t end_ = 0;        // one past the last that may be filled
  std::exception_ptr failure_;  // to fill next_
  bool stops_ = false;
  std::thread thread_;
};

}  // namespace twobw::runtime
