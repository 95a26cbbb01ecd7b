// One end of a connection that never blocks: bytes that have arrived, and bytes that wait to go.
#pragma once

#include <poll.h>

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/control/frame.h"
#include "engine/control/socket.h"

namespace twobw::control {

using Clock = std::chrono::steady_clock;

inline Clock::duration seconds(double count) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(count));
}

// Milliseconds for poll(2), rounded up.
int poll_time(Clock::time_point until);

// Encoded once, sent to many.
using Bytes = std::shared_ptr<const std::string>;
Bytes encoded(const Frame& frame);

class Connection {
 public:
  // The socket does not block.
  explicit Connection(Descriptor socket);

  int get() const { return socket_.get(); }
  // What poll(2) should wait for.
  pollfd polled() const;

  // Takes what is there, some of it where it is much. False: the peer has closed, or the connection is
  // broken.
  bool read();
  std::string_view received() const { return std::string_view(received_).substr(used_); }
  void use(std::size_t bytes);
  // Throws InputError for bytes that are no frame.
  std::optional<Frame> next_frame();

  void queue(Bytes bytes);
  std::size_t queued() const { return queued_; }
  // Sends what fits. False: the connection is broken.
  bool write();
  // Nothing more will be sent.
  void finish();

 private:
  Descriptor socket_;
  std::string received_;
  std::size_t used_ = 0;
  std::deque<Bytes> waiting_;
  std::size_t sent_ = 0;  // of the first of them
  std::size_t queued_ = 0;
};

// Sends what waits and closes only after the peers have, so that nothing is lost; gives up after `limit_s`.
void close_well(std::span<Connection* const> connections, double limit_s);

}  // namespace twobw::control
