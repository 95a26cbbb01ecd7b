#include "engine/control/center.h"

#include <algorithm>

#include "core/base/error.h"
#include "engine/control/ranks.h"

namespace twobw::control {
namespace {

// Words for a rank that takes none are kept up to here.
constexpr std::size_t kMaxQueued = std::size_t{1} << 30;

}  // namespace

Center::Center(Session& session, const Options& options, Listener listener, Terms terms)
    : session_(session),
      options_(options),
      listener_(std::move(listener)),
      terms_(std::move(terms)),
      members_(static_cast<std::size_t>(session.size())),
      next_beat_(Clock::now()),
      arrive_until_(Clock::now() + seconds(options.arrival_s)) {
  begin_if_complete();
}

Center::Center(Session& session, const Options& options, std::vector<std::unique_ptr<Connection>> members)
    : session_(session),
      options_(options),
      members_(static_cast<std::size_t>(session.size())),
      next_beat_(Clock::now()) {
  for (std::size_t rank = 1; rank < members_.size(); ++rank) {
    members_[rank].connection = std::move(members[rank - 1]);
    members_[rank].heard = Clock::now();
  }
  begin_if_complete();
}

void Center::begin_if_complete() {
  const auto is_there = [](const Peer& member) { return member.connection != nullptr; };
  if (!std::all_of(members_.begin() + 1, members_.end(), is_there)) return;
  begun_ = true;
  send_to_members({.kind = Frame::Kind::Begin});
  session_.begin();
}

void Center::handle(int from, Frame frame) {
  if (session_.over()) return;
  const bool known = frame.from == from && frame.to < session_.size();
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
      return end(fmt::format("process {} sent what makes no sense to process 0", from));
  }
}

void Center::relay(int from, Frame frame) {
  if (frame.to == kOthers) send_to_members(frame, from);
  if (frame.to > 0) send(frame.to, encoded(frame));
  const bool here = frame.to == 0 || (frame.to == kOthers && from != 0);
  if (here) session_.deliver(from, frame.topic, std::move(frame.body));
}

void Center::send(int to, const Bytes& bytes) {
  Connection* connection = members_[static_cast<std::size_t>(to)].connection.get();
  if (!connection) return;
  connection->queue(bytes);
  if (connection->queued() > kMaxQueued) end(fmt::format("process {} takes no more messages", to));
}

void Center::send_to_members(const Frame& frame, int but) {
  const Bytes bytes = encoded(frame);
  for (int rank = 1; rank < session_.size(); ++rank) {
    if (rank != but) send(rank, bytes);
  }
}

void Center::leave(int rank) {
  members_[static_cast<std::size_t>(rank)].left = true;
  session_.has_left(rank);
  if (!std::ranges::all_of(members_, &Peer::left)) return;
  send_to_members({.kind = Frame::Kind::AllLeft});
  session_.all_left();
}

void Center::lose(int rank) {
  Peer& member = members_[static_cast<std::size_t>(rank)];
  member.connection.reset();
  if (!member.left) end(fmt::format("process {} closed its connection without leaving", rank));
}

void Center::end(const Failure& failure) {
  if (session_.end(failure)) send_to_members(to_frame(failure, 0));
}

std::vector<pollfd> Center::polled() {
  std::vector<pollfd> polled;
  const bool accepts = listener_ && Clock::now() >= accept_after_;
  polled.push_back({.fd = accepts ? listener_->get() : -1, .events = POLLIN, .revents = 0});
  for (const Peer& member : members_)
    polled.push_back(member.connection ? member.connection->polled()
                                       : pollfd{.fd = -1, .events = 0, .revents = 0});
  for (const Stranger& stranger : strangers_) polled.push_back(stranger.connection->polled());
  return polled;
}

void Center::serve(const std::vector<pollfd>& polled) {
  std::size_t at = 1;
  for (int rank = 0; rank < session_.size(); ++rank) {
    const short events = polled[at++].revents;
    if (events && members_[static_cast<std::size_t>(rank)].connection) serve_member(rank, events);
  }
  std::vector<Stranger> still;
  for (Stranger& stranger : strangers_) {
    const short events = polled[at++].revents;
    if (!events || serve_stranger(stranger, events)) still.push_back(std::move(stranger));
  }
  strangers_ = std::move(still);
  if (polled[0].revents) accept_strangers();
}

void Center::serve_member(int rank, short events) {
  Peer& member = members_[static_cast<std::size_t>(rank)];
  Connection& connection = *member.connection;
  bool open = !(events & POLLOUT) || connection.write();
  if (events & (POLLIN | POLLHUP | POLLERR)) {
    open = connection.read() && open;
    member.heard = Clock::now();
    session_.heard(rank, member.heard);
  }
  try {
    // The last words of one that has closed count too.
    while (auto frame = connection.next_frame()) handle(rank, std::move(*frame));
  } catch (const InputError& error) {
    end(fmt::format("process {} sent what is no frame: {}", rank, error.what()));
    open = false;
  }
  if (!open) lose(rank);
}

void Center::beat() {
  std::vector<Life> lives = session_.lives();
  lives.insert(lives.begin(), {.rank = 0, .silent_s = 0, .has_left = members_[0].left});
  send_to_members({.kind = Frame::Kind::Beat, .body = encode_lives(lives)});
}

void Center::check_arrivals(Clock::time_point now) {
  if (begun_ || now < arrive_until_) return;
  std::vector<int> missing;
  for (int rank = 1; rank < session_.size(); ++rank) {
    if (!members_[static_cast<std::size_t>(rank)].connection) missing.push_back(rank);
  }
  end(fmt::format("{} of {} did not come to process 0 at {} within {} s", describe_ranks(missing),
                  session_.size(), describe(listener_->endpoint()), options_.arrival_s));
}

Clock::time_point Center::tick(Clock::time_point now) {
  if (now >= next_beat_) {
    next_beat_ = now + seconds(options_.heartbeat_s);
    beat();
  }
  Clock::time_point next = next_beat_;
  std::erase_if(strangers_, [&](const Stranger& stranger) { return stranger.until <= now; });
  for (const Stranger& stranger : strangers_) next = std::min(next, stranger.until);
  if (accept_after_ > now) next = std::min(next, accept_after_);
  if (session_.over()) return next;
  check_arrivals(now);
  if (!begun_) next = std::min(next, arrive_until_);
  for (int rank = 1; rank < session_.size(); ++rank) {
    const Peer& member = members_[static_cast<std::size_t>(rank)];
    if (!member.connection || member.left) continue;
    const Clock::time_point until = member.heard + seconds(options_.silence_s);
    if (until <= now) end(fmt::format("process {} has been silent for {} s", rank, options_.silence_s));
    next = std::min(next, until);
  }
  return next;
}

std::vector<Connection*> Center::finish() {
  listener_.reset();
  std::vector<Connection*> open;
  for (const Peer& member : members_) {
    if (member.connection) open.push_back(member.connection.get());
  }
  for (const Stranger& stranger : strangers_) {
    if (stranger.refused) open.push_back(stranger.connection.get());
  }
  return open;
}

}  // namespace twobw::control
