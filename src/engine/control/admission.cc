// Rank 0's door: connections whose rank is not known yet.
#include <algorithm>
#include <cerrno>
#include <iterator>

#include "core/base/error.h"
#include "engine/control/center.h"

namespace twobw::control {
namespace {

// In one turn, so that ranks are heard between, and who has come in one turn is heard in the next before
// others take its place.
constexpr int kAcceptAtOnce = 32;

std::string peer_of(const Connection& connection) {
  SocketAddress address;
  address.length = sizeof address.storage;
  if (getpeername(connection.get(), reinterpret_cast<sockaddr*>(&address.storage), &address.length) != 0)
    return "?";
  return describe(numeric(address));
}

}  // namespace

void Center::accept_strangers() {
  for (int i = 0; i < kAcceptAtOnce; ++i) {
    Descriptor socket(accept4(listener_->get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) {
      // Without a descriptor to spare the connection stays where it is, and would be reported again at once.
      const bool scarce = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      if (scarce) accept_after_ = Clock::now() + seconds(0.1);
      return;
    }
    if (std::ssize(strangers_) >= options_.strangers && !drop_oldest_stranger()) continue;
    strangers_.push_back({.connection = std::make_unique<Connection>(std::move(socket)),
                          .until = Clock::now() + seconds(options_.handshake_s)});
  }
}

bool Center::drop_oldest_stranger() {
  const auto oldest =
      std::ranges::find_if(strangers_, [](const Stranger& stranger) { return !stranger.refused; });
  if (oldest == strangers_.end()) return false;
  strangers_.erase(oldest);
  return true;
}

bool Center::serve_stranger(Stranger& stranger, short events) {
  Connection& connection = *stranger.connection;
  if ((events & POLLOUT) && !connection.write()) return false;
  if (stranger.refused && connection.queued() == 0) connection.finish();
  if (!(events & (POLLIN | POLLHUP | POLLERR))) return true;
  if (!connection.read()) return false;
  if (stranger.refused) {
    connection.use(connection.received().size());
    return true;
  }
  try {
    const auto decoded = decode_hello(connection.received());
    if (!decoded) return true;
    connection.use(decoded->bytes);
    return same_token(decoded->hello.token, terms_.token) && admit(stranger, decoded->hello);
  } catch (const InputError&) {
    return false;
  }
}

bool Center::admit(Stranger& stranger, const Hello& hello) {
  std::optional<Failure> failure = session_.failure();
  if (!failure) {
    if (const auto reason = objection(hello, *stranger.connection)) failure = *reason;
  }
  if (failure) {
    stranger.refused = true;
    stranger.until = Clock::now() + seconds(options_.farewell_s);
    stranger.connection->queue(encoded(to_frame(*failure, 0)));
    // Before the run begins it is a rank that would be missing; afterwards somebody else's mistake.
    if (!begun_) end(*failure);
    return true;
  }
  Peer& member = members_[static_cast<std::size_t>(hello.rank)];
  member.connection = std::move(stranger.connection);
  member.heard = Clock::now();
  session_.heard(hello.rank, member.heard);
  member.connection->queue(encoded({.kind = Frame::Kind::Accepted}));
  begin_if_complete();
  return false;
}

std::optional<std::string> Center::objection(const Hello& hello, const Connection& connection) const {
  if (hello.protocol != kProtocol) {
    return fmt::format("a process from {} speaks protocol {}, process 0 protocol {}: the builds differ",
                       peer_of(connection), hello.protocol, kProtocol);
  }
  if (hello.size != session_.size()) {
    return fmt::format("process {} was started as one of {} processes, process 0 as one of {}", hello.rank,
                       hello.size, session_.size());
  }
  if (hello.rank < 0 || hello.rank >= session_.size())
    return fmt::format("a process from {} calls itself process {} of {}", peer_of(connection), hello.rank,
                       hello.size);
  if (hello.build != terms_.build)
    return fmt::format("process {} has build '{}', process 0 has build '{}'", hello.rank, hello.build,
                       terms_.build);
  const Peer& member = members_[static_cast<std::size_t>(hello.rank)];
  if (hello.rank == 0 || member.connection || member.left)
    return fmt::format("process {} is there twice; the second is from {}", hello.rank, peer_of(connection));
  return std::nullopt;
}

}  // namespace twobw::control
