// Fills numbered places on a thread of its own, ahead of the one thread that asks for them in their order: a
// bounded queue, of which the caller owns the places. What a number stands for must be a function of the
// number alone.
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
  std::string name;  // of the thread
  int ahead = 0;     // places that may be filled before they are asked for; 0: no thread, filled when asked
  int held = 0;      // places that the caller keeps after it has asked for the next
  double timeout = 300;  // seconds that await() may take
};

class ReadAhead {
 public:
  // Fills place `number % places()` with what `number` stands for. May throw: await() throws it on.
  using Fill = std::function<void(std::int64_t number)>;

  ReadAhead(ReadAheadSetup setup, Fill fill);
  ~ReadAhead();  // waits for the place that is being filled
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  int places() const { return places_; }

  // Waits until the place of `number` is filled. Numbers follow one another; any other than the next begins a
  // new sequence there, for which all places are free. Throws transport::WaitTimeout.
  void await(std::int64_t number);

  // The place of `number`, and of those before it, may be filled again.
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
  std::int64_t sequence_ = 0;   // how many have begun
  std::int64_t wanted_ = -1;    // number that goes on with it
  std::int64_t first_ = 0;      // not released
  std::int64_t next_ = 0;       // to be filled; those from first_ up to it are
  std::int64_t end_ = 0;        // one past the last that may be filled
  std::exception_ptr failure_;  // to fill next_
  bool stops_ = false;
  std::thread thread_;
};

}  // namespace twobw::runtime
