#include "engine/control/connection.h"

#include <algorithm>
#include <cerrno>
#include <vector>

namespace twobw::control {
namespace {

constexpr std::size_t kReadAtOnce = 64 << 10;

bool must_wait() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

}  // namespace

int poll_time(Clock::time_point until) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000));
}

Bytes encoded(const Frame& frame) {
  return std::make_shared<const std::string>(encode(frame));
}

Connection::Connection(Descriptor socket) : socket_(std::move(socket)) {
  send_at_once(socket_.get());
}

pollfd Connection::polled() const {
  return {.fd = socket_.get(),
          .events = static_cast<short>(POLLIN | (waiting_.empty() ? 0 : POLLOUT)),
          .revents = 0};
}

bool Connection::read() {
  char bytes[kReadAtOnce];
  const ssize_t count = recv(socket_.get(), bytes, sizeof bytes, 0);
  if (count > 0) received_.append(bytes, static_cast<std::size_t>(count));
  return count > 0 || (count < 0 && must_wait());
}

void Connection::use(std::size_t bytes) {
  used_ += bytes;
  // Moves at most as many bytes as it frees.
  if (used_ < received_.size() / 2) return;
  received_.erase(0, used_);
  used_ = 0;
  if (received_.empty()) received_.shrink_to_fit();
}

std::optional<Frame> Connection::next_frame() {
  auto decoded = decode_frame(received());
  if (!decoded) return std::nullopt;
  use(decoded->bytes);
  return std::move(decoded->frame);
}

void Connection::queue(Bytes bytes) {
  queued_ += bytes->size();
  waiting_.push_back(std::move(bytes));
}

bool Connection::write() {
  while (!waiting_.empty()) {
    const std::string& first = *waiting_.front();
    const ssize_t count = send(socket_.get(), first.data() + sent_, first.size() - sent_, MSG_NOSIGNAL);
    if (count < 0) return must_wait();
    sent_ += static_cast<std::size_t>(count);
    queued_ -= static_cast<std::size_t>(count);
    if (sent_ < first.size()) continue;
    waiting_.pop_front();
    sent_ = 0;
  }
  return true;
}

void close_well(std::span<Connection* const> connections, double limit_s) {
  const Clock::time_point until = Clock::now() + seconds(limit_s);
  std::vector<Connection*> open(connections.begin(), connections.end()), sending = open;
  while (!open.empty() && Clock::now() < until) {
    // Before anything is read: the peer may have closed while our messages are still in flight.
    std::erase_if(sending, [](Connection* connection) {
      if (!connection->write()) return true;
      if (connection->queued() == 0) connection->finish();
      return connection->queued() == 0;
    });
    std::vector<pollfd> polled;
    for (const Connection* connection : open) polled.push_back(connection->polled());
    if (poll(polled.data(), polled.size(), poll_time(until)) < 0 && errno != EINTR) return;
    std::vector<Connection*> still;
    for (std::size_t i = 0; i < open.size(); ++i) {
      const bool ready = (polled[i].revents & (POLLIN | POLLHUP | POLLERR)) != 0;
      if (ready && !open[i]->read()) continue;
      open[i]->use(open[i]->received().size());
      still.push_back(open[i]);
    }
    std::erase_if(sending, [&](Connection* one) { return std::ranges::find(still, one) == still.end(); });
    open = std::move(still);
  }
}

}  // namespace twobw::control
