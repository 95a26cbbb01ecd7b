#include "engine/control/joining.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "core/base/error.h"
#include "engine/control/handshake.h"

namespace twobw::control {
namespace {

// False: the time is over.
bool wait_for(int socket, short events, Clock::time_point until) {
  pollfd polled = {.fd = socket, .events = events, .revents = 0};
  while (Clock::now() < until) {
    if (poll(&polled, 1, poll_time(until)) > 0) return true;
  }
  return false;
}

// To a port of its own choice on its own host a socket may connect to itself.
bool is_own_end(int socket) {
  SocketAddress peer;
  peer.length = sizeof peer.storage;
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&peer.storage), &peer.length) != 0) return false;
  return describe(numeric(peer)) == describe(numeric(address_of(socket)));
}

// One try after the other of the addresses that a name has; `why` says what the last came to.
Descriptor open_socket(const Endpoint& endpoint, Clock::time_point until, std::string& why) {
  for (const SocketAddress& address : resolve(endpoint)) {
    Descriptor socket(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    int error = socket && ::connect(socket.get(), address.get(), address.length) == 0 ? 0 : errno;
    if (error == EINPROGRESS && !wait_for(socket.get(), POLLOUT, until)) error = ETIMEDOUT;
    socklen_t length = sizeof error;
    if (error == EINPROGRESS) getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error == 0 && is_own_end(socket.get())) error = ECONNREFUSED;
    if (error == 0) return socket;
    why = std::strerror(error);
  }
  return {};
}

// Says hello and waits for the answer. False: there was none.
bool shake_hands(Connection& connection, const Meeting& meeting, Clock::time_point until, std::string& why) {
  const Hello hello{
      .token = meeting.token, .build = meeting.build, .rank = meeting.rank, .size = meeting.size};
  connection.queue(std::make_shared<const std::string>(encode(hello)));
  why = "something listens there, but does not answer";
  bool open = true;
  while (open && wait_for(connection.get(), connection.polled().events, until)) {
    open = connection.write();
    open = connection.read() && open;
    std::optional<Frame> frame;
    try {
      frame = connection.next_frame();
      if (!frame) continue;
    } catch (const InputError&) {  // no frame
    }
    if (frame && frame->kind == Frame::Kind::Accepted) return true;
    if (const auto refusal = frame ? failure_in(*frame) : std::nullopt) refusal->raise();
    why = "what listens there is not process 0 of a run";
    return false;
  }
  if (!open)
    why = "the connection was closed without an answer; the token or the program there may be another";
  return false;
}

}  // namespace

std::unique_ptr<Connection> join(const Meeting& meeting, const Options& options) {
  const Clock::time_point until = Clock::now() + seconds(options.arrival_s);
  Clock::duration pause = std::chrono::milliseconds(10);
  std::string why = "there was no time";
  while (Clock::now() < until) {
    try {
      if (Descriptor socket = open_socket(meeting.endpoint, until, why)) {
        auto connection = std::make_unique<Connection>(std::move(socket));
        if (shake_hands(*connection, meeting, until, why)) return connection;
      }
    } catch (const UnknownHost& error) {
      why = error.what();  // it may become known: names of hosts appear with them
    }
    std::this_thread::sleep_for(std::min(pause, until - Clock::now()));
    pause = std::min<Clock::duration>(pause * 2, std::chrono::milliseconds(500));
  }
  fail_run("process {} did not reach process 0 at {} within {} s: {}", meeting.rank,
           describe(meeting.endpoint), options.arrival_s, why);
}

}  // namespace twobw::control
