#include "engine/control/peers.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "core/base/error.h"

namespace twobw::control {
namespace {

// False: timed out.
bool wait_for(int socket, short events, Clock::time_point until) {
  pollfd polled = {.fd = socket, .events = events, .revents = 0};
  while (Clock::now() < until) {
    if (poll(&polled, 1, poll_time(until)) > 0) return true;
  }
  return false;
}

// A socket that connects to an ephemeral port of its own host may connect to itself.
bool is_own_end(int socket) {
  const auto peer = peer_of(socket);
  return peer && describe(numeric(*peer)) == describe(numeric(address_of(socket)));
}

// Tries all addresses of a name; `why` is the error of the last.
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

// Sends the hello and waits for the answer. False: no answer.
bool shake_hands(Connection& connection, const Rendezvous& rendezvous, Clock::time_point until,
                 std::string& why) {
  const Hello hello{
      .token = rendezvous.token, .build = rendezvous.build, .rank = rendezvous.rank, .size = rendezvous.size};
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
    } catch (const InputError&) {  // not a frame
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

std::unique_ptr<Connection> join(const Rendezvous& rendezvous, const Options& options) {
  const Clock::time_point until = Clock::now() + seconds(options.join_timeout_s);
  Clock::duration pause = std::chrono::milliseconds(10);
  std::string why = "there was no time";
  while (Clock::now() < until) {
    try {
      if (Descriptor socket = open_socket(rendezvous.endpoint, until, why)) {
        auto connection = std::make_unique<Connection>(std::move(socket));
        if (shake_hands(*connection, rendezvous, until, why)) return connection;
      }
    } catch (const UnknownHost& error) {
      why = error.what();  // host names may appear later, with their hosts
    }
    std::this_thread::sleep_for(std::min(pause, until - Clock::now()));
    pause = std::min<Clock::duration>(pause * 2, std::chrono::milliseconds(500));
  }
  fail_run("process {} did not reach process 0 at {} within {} s: {}", rendezvous.rank,
           describe(rendezvous.endpoint), options.join_timeout_s, why);
}

Client::Client(Control& control, const Options& options, std::unique_ptr<Connection> zero)
    : Peer(control, options), zero_(std::move(zero)), heard_(Clock::now()), next_beat_(Clock::now()) {}

void Client::post_local(Frame frame) {
  if (control_.over() || failure_) return;
  if (frame.kind == Frame::Kind::Message && frame.to == control_.rank())
    return control_.deliver(frame.from, frame.topic, std::move(frame.body));
  if (auto failure = failure_in(frame, fmt::format("process {}: ", control_.rank()))) {
    failure_ = std::move(failure);
    verdict_until_ = Clock::now() + seconds(options_.verdict_s);
  }
  send(frame);
}

void Client::send(const Frame& frame) {
  if (zero_) zero_->queue(encoded(frame));
}

// If rank 0 is gone, a failure of this rank that was on its way there counts.
void Client::end(const Failure& failure) {
  control_.end(failure_.value_or(failure));
}

void Client::handle(int, Frame frame) {
  const bool from_other = frame.from < control_.size() && frame.from != control_.rank();
  const bool to_here = frame.to == control_.rank() || frame.to == kOthers;
  switch (frame.kind) {
    case Frame::Kind::Begin:
      return control_.begin();
    case Frame::Kind::Message:
      if (!from_other || !to_here) break;
      return control_.deliver(frame.from, frame.topic, std::move(frame.body));
    case Frame::Kind::Beat:
      return learn(decode_liveness(frame.body));
    case Frame::Kind::Abort:
    case Frame::Kind::WrongInput:
      control_.end(*failure_in(frame));
      return;
    case Frame::Kind::AllLeft:
      return control_.all_left();
    default:
      break;
  }
  fail_input("process {} does not expect it", control_.rank());
}

void Client::learn(const std::vector<Liveness>& ranks) {
  if (static_cast<int>(ranks.size()) != control_.size())
    fail_input("a heartbeat lists {} processes", ranks.size());
  for (const Liveness& other : ranks) {
    if (other.rank == control_.rank()) continue;
    if (other.rank != 0) control_.heard(other.rank, Clock::now() - seconds(other.silent_s));
    if (other.has_left) control_.has_left(other.rank);
  }
}

std::vector<pollfd> Client::polled() {
  return {zero_ ? zero_->polled() : pollfd{.fd = -1, .events = 0, .revents = 0}};
}

void Client::serve(const std::vector<pollfd>& polled) {
  const short events = polled[0].revents;
  if (!zero_ || !events || serve_frames(0, *zero_, events, heard_)) return;
  zero_.reset();
  end("process 0 closed its connection before all had left");
}

Clock::time_point Client::tick(Clock::time_point now) {
  if (now >= next_beat_) {
    next_beat_ = now + seconds(options_.heartbeat_s);
    send({.kind = Frame::Kind::Beat, .from = control_.rank()});
  }
  if (control_.over()) return next_beat_;
  Clock::time_point next = std::min(next_beat_, heard_ + seconds(options_.heartbeat_timeout_s));
  if (heard_ + seconds(options_.heartbeat_timeout_s) <= now)
    end(fmt::format("process 0 has been silent for {} s", options_.heartbeat_timeout_s));
  if (!failure_) return next;
  if (verdict_until_ <= now) end(*failure_);
  return std::min(next, verdict_until_);
}

std::vector<Connection*> Client::finish() {
  if (failure_) end(*failure_);
  if (!zero_) return {};
  return {zero_.get()};
}

}  // namespace twobw::control
