#include "engine/control/member.h"

#include <algorithm>

#include "core/base/error.h"

namespace twobw::control {

Member::Member(Session& session, const Options& options, std::unique_ptr<Connection> center)
    : session_(session),
      options_(options),
      center_(std::move(center)),
      heard_(Clock::now()),
      next_beat_(Clock::now()) {}

void Member::own(Frame frame) {
  if (session_.over() || failure_) return;
  if (frame.kind == Frame::Kind::Message && frame.to == session_.rank())
    return session_.deliver(frame.from, frame.topic, std::move(frame.body));
  if (auto failure = failure_in(frame, fmt::format("process {}: ", session_.rank()))) {
    failure_ = std::move(failure);
    verdict_until_ = Clock::now() + seconds(options_.verdict_s);
  }
  send(frame);
}

void Member::send(const Frame& frame) {
  if (center_) center_->queue(encoded(frame));
}

// With an own failure on the way to a rank 0 that is no more, the own stands.
void Member::end(const Failure& failure) {
  session_.end(failure_.value_or(failure));
}

void Member::handle(Frame frame) {
  const bool from_other = frame.from < session_.size() && frame.from != session_.rank();
  const bool to_here = frame.to == session_.rank() || frame.to == kOthers;
  switch (frame.kind) {
    case Frame::Kind::Begin:
      return session_.begin();
    case Frame::Kind::Message:
      if (!from_other || !to_here) break;
      return session_.deliver(frame.from, frame.topic, std::move(frame.body));
    case Frame::Kind::Beat:
      return learn(decode_lives(frame.body));
    case Frame::Kind::Abort:
    case Frame::Kind::WrongInput:
      session_.end(*failure_in(frame));
      return;
    case Frame::Kind::AllLeft:
      return session_.all_left();
    default:
      break;
  }
  fail_input("it makes no sense to process {}", session_.rank());
}

void Member::learn(const std::vector<Life>& lives) {
  if (static_cast<int>(lives.size()) != session_.size())
    fail_input("a beat tells of {} processes", lives.size());
  for (const Life& life : lives) {
    if (life.rank == session_.rank()) continue;
    if (life.rank != 0) session_.heard(life.rank, Clock::now() - seconds(life.silent_s));
    if (life.has_left) session_.has_left(life.rank);
  }
}

std::vector<pollfd> Member::polled() {
  return {center_ ? center_->polled() : pollfd{.fd = -1, .events = 0, .revents = 0}};
}

void Member::serve(const std::vector<pollfd>& polled) {
  const short events = polled[0].revents;
  if (!center_ || !events) return;
  bool open = !(events & POLLOUT) || center_->write();
  if (events & (POLLIN | POLLHUP | POLLERR)) {
    open = center_->read() && open;
    heard_ = Clock::now();
    session_.heard(0, heard_);
  }
  try {
    // The last words of one that has closed count too.
    while (auto frame = center_->next_frame()) handle(std::move(*frame));
  } catch (const InputError& error) {
    end(fmt::format("process 0 sent what is no frame: {}", error.what()));
    open = false;
  }
  if (open) return;
  center_.reset();
  end("process 0 closed its connection before all had left");
}

Clock::time_point Member::tick(Clock::time_point now) {
  if (now >= next_beat_) {
    next_beat_ = now + seconds(options_.heartbeat_s);
    send({.kind = Frame::Kind::Beat, .from = session_.rank()});
  }
  if (session_.over()) return next_beat_;
  Clock::time_point next = std::min(next_beat_, heard_ + seconds(options_.silence_s));
  if (heard_ + seconds(options_.silence_s) <= now)
    end(fmt::format("process 0 has been silent for {} s", options_.silence_s));
  if (!failure_) return next;
  if (verdict_until_ <= now) end(*failure_);
  return std::min(next, verdict_until_);
}

std::vector<Connection*> Member::finish() {
  if (failure_) end(*failure_);
  if (!center_) return {};
  return {center_.get()};
}

}  // namespace twobw::control
