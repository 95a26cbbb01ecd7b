// One end of a non-blocking connection: received bytes, and bytes queued to be sent.
#pragma once

#include <poll.h>

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/control/protocol.h"
#include "engine/control/socket.h"

namespace twobw::control {

using Clock = std::chrono::steady_clock;

inline Clock::duration seconds(double count) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(count));
}

// Milliseconds for poll(2), rounded up.
int poll_time(Clock::time_point until);

// A frame encoded once, sent to many.
using Bytes = std::shared_ptr<const std::string>;
Bytes encoded(const Frame& frame);

class Connection {
 public:
  // The socket is non-blocking.
  explicit Connection(Descriptor socket);

  int get() const { return socket_.get(); }
  // Events that poll(2) should wait for.
  pollfd polled() const;

  // Reads available bytes, up to a limit. False: the peer has closed, or the connection is broken.
  bool read();
  std::string_view received() const { return std::string_view(received_).substr(used_); }
  void use(std::size_t bytes);
  // Throws InputError if the bytes are not a frame.
  std::optional<Frame> next_frame();

  void queue(Bytes bytes);
  std::size_t queued() const { return queued_; }
  // Sends as much as fits. False: the connection is broken.
  bool write();
  // Shuts down the sending direction.
  void finish() { shutdown(socket_.get(), SHUT_WR); }

 private:
  Descriptor socket_;
  std::string received_;
  std::size_t used_ = 0;
  std::deque<Bytes> waiting_;
  std::size_t sent_ = 0;  // bytes of the first
  std::size_t queued_ = 0;
};

// Sends all queued bytes and closes only after the peers have, so that nothing is lost; gives up after
// `limit_s`.
void close_well(std::span<Connection* const> connections, double limit_s);

}  // namespace twobw::control
