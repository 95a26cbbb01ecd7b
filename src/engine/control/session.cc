#include "engine/control/session.h"

#include <utility>

#include "core/base/error.h"

namespace twobw::control {

Session::Session(int rank, int size) : rank_(rank), size_(size), heartbeats_(static_cast<std::size_t>(size)) {
  for (Heartbeat& one : heartbeats_) one.heard = Clock::now();
}

void Session::on(Topic topic, std::function<void(int, std::string_view)> handler) {
  const std::lock_guard lock(mutex_);
  auto& place = handlers_[static_cast<std::size_t>(topic)];
  TWOBW_ASSERT(!started_ && !place, "rank {}, topic {}", rank_, static_cast<int>(topic));
  place = std::move(handler);
}

void Session::on_abort(std::function<void(const Failure&)> handler) {
  const std::lock_guard lock(mutex_);
  TWOBW_ASSERT(!started_, "rank {}", rank_);
  on_abort_.push_back(std::move(handler));
}

void Session::start() {
  {
    const std::lock_guard lock(mutex_);
    TWOBW_ASSERT(!started_, "rank {}", rank_);
    started_ = true;
  }
  waker_.wake();
}

void Session::post(Frame frame) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return;
    posted_.push_back(std::move(frame));
  }
  waker_.wake();
}

void Session::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  waker_.wake();
}

void Session::wait_begun() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return begun_ || failure_; });
  // A failure after all have joined is reported at start().
  if (!begun_) failure_->raise();
}

void Session::wait_all_left() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return all_left_ || failure_; });
  if (!all_left_) failure_->raise();
}

std::vector<Liveness> Session::liveness() const {
  const Clock::time_point now = Clock::now();
  const std::lock_guard lock(mutex_);
  std::vector<Liveness> ranks;
  for (int peer = 0; peer < size_; ++peer) {
    const Heartbeat& last = heartbeats_[static_cast<std::size_t>(peer)];
    const double silent_s = std::max(0.0, std::chrono::duration<double>(now - last.heard).count());
    if (peer != rank_) ranks.push_back({.rank = peer, .silent_s = silent_s, .has_left = last.left});
  }
  return ranks;
}

std::vector<Frame> Session::take() {
  std::vector<Frame> frames;
  {
    const std::lock_guard lock(mutex_);
    frames.swap(posted_);
    listening_ = started_;
  }
  if (listening_) {
    while (!held_.empty()) {
      const Held message = std::move(held_.front());
      held_.pop_front();
      dispatch(message);
    }
    report_abort();
  }
  return frames;
}

bool Session::stopping() const {
  const std::lock_guard lock(mutex_);
  return stopping_;
}

void Session::deliver(int from, Topic topic, std::string body) {
  Held message{from, topic, std::move(body)};
  if (listening_) {
    dispatch(message);
  } else {
    held_.push_back(std::move(message));
  }
}

void Session::dispatch(const Held& message) {
  if (over()) return;
  const auto abort = [&](const Failure& failure) { post(to_frame(failure, rank_)); };
  const auto& handler = handlers_[static_cast<std::size_t>(message.topic)];
  if (!handler) {
    return abort(fmt::format("process {} sent a message of topic {}, which has no handler", message.from,
                             static_cast<int>(message.topic)));
  }
  try {
    handler(message.from, message.body);
  } catch (const std::exception& error) {
    abort(error.what());
  }
}

void Session::begin() {
  const std::lock_guard lock(mutex_);
  begun_ = true;
  changed_.notify_all();
}

void Session::all_left() {
  const std::lock_guard lock(mutex_);
  if (!failure_) all_left_ = true;
  changed_.notify_all();
}

bool Session::end(const Failure& failure) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_ || all_left_) return false;
    failure_ = failure;
    changed_.notify_all();
  }
  if (listening_) report_abort();
  return true;
}

void Session::report_abort() {
  const std::optional<Failure> why = failure();
  if (!why || std::exchange(reported_, true)) return;
  for (const auto& handler : on_abort_) handler(*why);
}

bool Session::over() const {
  const std::lock_guard lock(mutex_);
  return failure_ || all_left_;
}

std::optional<Failure> Session::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void Session::heard(int rank, Clock::time_point when) {
  const std::lock_guard lock(mutex_);
  heartbeats_[static_cast<std::size_t>(rank)].heard = when;
}

void Session::has_left(int rank) {
  const std::lock_guard lock(mutex_);
  heartbeats_[static_cast<std::size_t>(rank)].left = true;
}

}  // namespace twobw::control
