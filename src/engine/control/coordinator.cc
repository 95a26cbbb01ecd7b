#include "engine/control/peers.h"

#include <algorithm>
#include <cerrno>

#include "core/base/error.h"

namespace twobw::control {
namespace {

// Bytes queued for a rank that does not read.
constexpr std::size_t kMaxQueued = std::size_t{1} << 30;

// Connections per turn: members are served in between, and a connection accepted in one turn is read in the
// next before others evict it.
constexpr int kAcceptAtOnce = 32;

std::string describe_peer(const Connection& connection) {
  const auto address = peer_of(connection.get());
  return address ? describe(numeric(*address)) : "?";
}

}  // namespace

Coordinator::Coordinator(Control& control, const Options& options, Listener listener,
                         const Rendezvous& rendezvous)
    : Peer(control, options),
      listener_(std::move(listener)),
      rendezvous_(rendezvous),
      members_(static_cast<std::size_t>(control.size())),
      next_beat_(Clock::now()),
      arrive_until_(Clock::now() + seconds(options.join_timeout_s)) {
  begin_if_complete();
}

Coordinator::Coordinator(Control& control, const Options& options,
                         std::vector<std::unique_ptr<Connection>> members)
    : Peer(control, options), members_(static_cast<std::size_t>(control.size())), next_beat_(Clock::now()) {
  for (std::size_t rank = 1; rank < members_.size(); ++rank) {
    members_[rank].connection = std::move(members[rank - 1]);
    members_[rank].heard = Clock::now();
  }
  begin_if_complete();
}

void Coordinator::begin_if_complete() {
  const auto is_there = [](const Member& member) { return member.connection != nullptr; };
  if (!std::all_of(members_.begin() + 1, members_.end(), is_there)) return;
  begun_ = true;
  send_to_members({.kind = Frame::Kind::Begin});
  control_.begin();
}

void Coordinator::handle(int from, Frame frame) {
  if (control_.over()) return;
  const bool known = frame.from == from && frame.to < control_.size();
  switch (known ? frame.kind : Frame::Kind::Accepted) {
    case Frame::Kind::Message:
      return relay(from, std::move(frame));
    case Frame::Kind::Beat:
      return;
    case Frame::Kind::Abort:
    case Frame::Kind::WrongInput:
      return end(*failure_in(frame, fmt::format("process {}: ", from)));
    case Frame::Kind::Left:
      return leave(from);
    default:
      return end(fmt::format("process {} sent an unexpected frame", from));
  }
}

void Coordinator::relay(int from, Frame frame) {
  if (frame.to == kOthers) send_to_members(frame, from);
  if (frame.to > 0) send(frame.to, encoded(frame));
  const bool here = frame.to == 0 || (frame.to == kOthers && from != 0);
  if (here) control_.deliver(from, frame.topic, std::move(frame.body));
}

void Coordinator::send(int to, const Bytes& bytes) {
  Connection* connection = members_[static_cast<std::size_t>(to)].connection.get();
  if (!connection) return;
  connection->queue(bytes);
  if (connection->queued() > kMaxQueued) end(fmt::format("process {} takes no more messages", to));
}

void Coordinator::send_to_members(const Frame& frame, int but) {
  const Bytes bytes = encoded(frame);
  for (int rank = 1; rank < control_.size(); ++rank) {
    if (rank != but) send(rank, bytes);
  }
}

void Coordinator::leave(int rank) {
  members_[static_cast<std::size_t>(rank)].left = true;
  control_.has_left(rank);
  if (!std::ranges::all_of(members_, &Member::left)) return;
  send_to_members({.kind = Frame::Kind::AllLeft});
  control_.all_left();
}

void Coordinator::end(const Failure& failure) {
  if (control_.end(failure)) send_to_members(to_frame(failure, 0));
}

std::vector<pollfd> Coordinator::polled() {
  std::vector<pollfd> polled;
  const bool accepts = listener_ && Clock::now() >= accept_after_;
  polled.push_back({.fd = accepts ? listener_->get() : -1, .events = POLLIN, .revents = 0});
  for (const Member& member : members_)
    polled.push_back(member.connection ? member.connection->polled()
                                       : pollfd{.fd = -1, .events = 0, .revents = 0});
  for (const PendingPeer& peer : pending_) polled.push_back(peer.connection->polled());
  return polled;
}

void Coordinator::serve(const std::vector<pollfd>& polled) {
  std::size_t at = 1;
  for (int rank = 0; rank < control_.size(); ++rank) {
    const short events = polled[at++].revents;
    Member& member = members_[static_cast<std::size_t>(rank)];
    if (!events || !member.connection || serve_frames(rank, *member.connection, events, member.heard))
      continue;
    member.connection.reset();
    if (!member.left) end(fmt::format("process {} closed its connection without leaving", rank));
  }
  std::vector<PendingPeer> still;
  for (PendingPeer& peer : pending_) {
    const short events = polled[at++].revents;
    if (!events || serve_pending(peer, events)) still.push_back(std::move(peer));
  }
  pending_ = std::move(still);
  if (polled[0].revents) accept_pending();
}

void Coordinator::beat() {
  std::vector<Liveness> lives = control_.liveness();
  lives.insert(lives.begin(), {.rank = 0, .silent_s = 0, .has_left = members_[0].left});
  send_to_members({.kind = Frame::Kind::Beat, .body = encode_liveness(lives)});
}

void Coordinator::check_arrivals(Clock::time_point now) {
  if (begun_ || now < arrive_until_) return;
  std::vector<int> missing;
  for (int rank = 1; rank < control_.size(); ++rank) {
    if (!members_[static_cast<std::size_t>(rank)].connection) missing.push_back(rank);
  }
  end(fmt::format("{} of {} did not reach process 0 at {} within {} s", describe_ranks(missing),
                  control_.size(), describe(listener_->endpoint()), options_.join_timeout_s));
}

Clock::time_point Coordinator::tick(Clock::time_point now) {
  if (now >= next_beat_) {
    next_beat_ = now + seconds(options_.heartbeat_s);
    beat();
  }
  Clock::time_point next = next_beat_;
  std::erase_if(pending_, [&](const PendingPeer& peer) { return peer.until <= now; });
  for (const PendingPeer& peer : pending_) next = std::min(next, peer.until);
  if (accept_after_ > now) next = std::min(next, accept_after_);
  if (control_.over()) return next;
  check_arrivals(now);
  if (!begun_) next = std::min(next, arrive_until_);
  for (int rank = 1; rank < control_.size(); ++rank) {
    const Member& member = members_[static_cast<std::size_t>(rank)];
    if (!member.connection || member.left) continue;
    const Clock::time_point until = member.heard + seconds(options_.heartbeat_timeout_s);
    if (until <= now)
      end(fmt::format("process {} has been silent for {} s", rank, options_.heartbeat_timeout_s));
    next = std::min(next, until);
  }
  return next;
}

std::vector<Connection*> Coordinator::finish() {
  listener_.reset();
  std::vector<Connection*> open;
  for (const Member& member : members_) {
    if (member.connection) open.push_back(member.connection.get());
  }
  for (const PendingPeer& peer : pending_) {
    if (peer.refused) open.push_back(peer.connection.get());
  }
  return open;
}

void Coordinator::accept_pending() {
  for (int i = 0; i < kAcceptAtOnce; ++i) {
    Descriptor socket(accept4(listener_->get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) {
      // Without a free descriptor the connection stays in the backlog, and poll(2) would report it at once.
      const bool scarce = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      if (scarce) accept_after_ = Clock::now() + seconds(0.1);
      return;
    }
    if (std::ssize(pending_) >= options_.pending_peers && !evict_oldest_pending()) continue;
    pending_.push_back({.connection = std::make_unique<Connection>(std::move(socket)),
                        .until = Clock::now() + seconds(options_.handshake_s)});
  }
}

bool Coordinator::evict_oldest_pending() {
  const auto oldest = std::ranges::find_if(pending_, [](const PendingPeer& peer) { return !peer.refused; });
  if (oldest == pending_.end()) return false;
  pending_.erase(oldest);
  return true;
}

bool Coordinator::serve_pending(PendingPeer& peer, short events) {
  Connection& connection = *peer.connection;
  if ((events & POLLOUT) && !connection.write()) return false;
  if (peer.refused && connection.queued() == 0) connection.finish();
  if (!(events & (POLLIN | POLLHUP | POLLERR))) return true;
  if (!connection.read()) return false;
  if (peer.refused) {
    connection.use(connection.received().size());
    return true;
  }
  try {
    const auto decoded = decode_hello(connection.received());
    if (!decoded) return true;
    connection.use(decoded->bytes);
    return same_token(decoded->hello.token, rendezvous_.token) && admit(peer, decoded->hello);
  } catch (const InputError&) {
    return false;
  }
}

bool Coordinator::admit(PendingPeer& peer, const Hello& hello) {
  std::optional<Failure> failure = control_.failure();
  if (!failure) {
    if (const auto reason = objection(hello, *peer.connection)) failure = *reason;
  }
  if (failure) {
    peer.refused = true;
    peer.until = Clock::now() + seconds(options_.farewell_s);
    peer.connection->queue(encoded(to_frame(*failure, 0)));
    // Before the run begins a rank would be missing; later it is a foreign process.
    if (!begun_) end(*failure);
    return true;
  }
  Member& member = members_[static_cast<std::size_t>(hello.rank)];
  member.connection = std::move(peer.connection);
  member.heard = Clock::now();
  control_.heard(hello.rank, member.heard);
  member.connection->queue(encoded({.kind = Frame::Kind::Accepted}));
  begin_if_complete();
  return false;
}

std::optional<std::string> Coordinator::objection(const Hello& hello, const Connection& connection) const {
  if (hello.protocol != kProtocol) {
    return fmt::format("a process from {} speaks protocol {}, process 0 protocol {}: the builds differ",
                       describe_peer(connection), hello.protocol, kProtocol);
  }
  if (hello.size != control_.size()) {
    return fmt::format("process {} was started as one of {} processes, process 0 as one of {}", hello.rank,
                       hello.size, control_.size());
  }
  if (hello.rank < 0 || hello.rank >= control_.size())
    return fmt::format("a process from {} calls itself process {} of {}", describe_peer(connection),
                       hello.rank, hello.size);
  if (hello.build != rendezvous_.build)
    return fmt::format("process {} has build '{}', process 0 has build '{}'", hello.rank, hello.build,
                       rendezvous_.build);
  const Member& member = members_[static_cast<std::size_t>(hello.rank)];
  if (hello.rank == 0 || member.connection || member.left)
    return fmt::format("process {} is there twice; the second is from {}", hello.rank,
                       describe_peer(connection));
  return std::nullopt;
}

}  // namespace twobw::control
