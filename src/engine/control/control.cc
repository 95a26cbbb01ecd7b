#include "engine/control/control.h"

#include <poll.h>
#include <pthread.h>

#include <algorithm>
#include <utility>

#include "engine/control/peers.h"

namespace twobw::control {

Control::Control(int rank, int size, const Options& options, const MakePeer& make)
    : rank_(rank),
      size_(size),
      options_(options),
      heartbeats_(static_cast<std::size_t>(size)),
      peer_(make(*this)),
      thread_([this] { run(); }) {}

Control::~Control() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  waker_.wake();
  thread_.join();
}

void Control::on(Topic topic, std::function<void(int from, std::string_view body)> handler) {
  const std::lock_guard lock(mutex_);
  auto& place = handlers_[static_cast<std::size_t>(topic)];
  TWOBW_ASSERT(!started_ && !place, "rank {}, topic {}", rank_, static_cast<int>(topic));
  place = std::move(handler);
}

void Control::on_abort(std::function<void(const Failure& failure)> handler) {
  const std::lock_guard lock(mutex_);
  TWOBW_ASSERT(!started_, "rank {}", rank_);
  on_abort_.push_back(std::move(handler));
}

void Control::start() {
  {
    const std::lock_guard lock(mutex_);
    TWOBW_ASSERT(!started_, "rank {}", rank_);
    started_ = true;
  }
  waker_.wake();
}

void Control::post(int to, Topic topic, std::string body) {
  if (body.size() > kMaxBody)
    fail_run("a control message of {} bytes is too long; at most {} are allowed", body.size(), kMaxBody);
  post({.topic = topic, .from = rank_, .to = to, .body = std::move(body)});
}

void Control::post(Frame frame) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return;
    posted_.push_back(std::move(frame));
  }
  waker_.wake();
}

void Control::send(int to, Topic topic, std::string body) {
  TWOBW_ASSERT(to >= 0 && to < size_, "to {} of {}", to, size_);
  post(to, topic, std::move(body));
}

void Control::send_to_others(Topic topic, std::string body) {
  post(kOthers, topic, std::move(body));
}

void Control::abort(const Failure& failure) {
  post(to_frame(failure, rank_));
}

std::vector<Liveness> Control::liveness() const {
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

void Control::wait_begun() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return begun_ || failure_; });
  // A failure after all have joined is reported at start().
  if (!begun_) failure_->raise();
}

void Control::leave() {
  TWOBW_ASSERT(std::this_thread::get_id() != thread_.get_id(), "rank {} leaves in a handler", rank_);
  post({.kind = Frame::Kind::Left, .from = rank_});
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return all_left_ || failure_; });
  if (!all_left_) failure_->raise();
}

void Control::run() {
  pthread_setname_np(pthread_self(), "control");
  Clock::time_point next = Clock::now();
  while (take_posted()) {
    std::vector<pollfd> polled = peer_->polled();
    polled.push_back({.fd = waker_.get(), .events = POLLIN, .revents = 0});
    poll(polled.data(), polled.size(), poll_time(next));
    if (polled.back().revents) waker_.clear();
    polled.pop_back();
    peer_->serve(polled);
    next = peer_->tick(Clock::now());
  }
  close_well(peer_->finish(), options_.farewell_s);
}

bool Control::take_posted() {
  std::vector<Frame> frames;
  bool stopping = false;
  {
    const std::lock_guard lock(mutex_);
    frames.swap(posted_);
    listening_ = started_;
    stopping = stopping_;
  }
  if (listening_) {
    while (!held_.empty()) {
      const Held message = std::move(held_.front());
      held_.pop_front();
      dispatch(message);
    }
    report_abort();
  }
  for (Frame& frame : frames) peer_->post_local(std::move(frame));
  return !stopping;
}

void Control::deliver(int from, Topic topic, std::string body) {
  Held message{from, topic, std::move(body)};
  if (listening_) {
    dispatch(message);
  } else {
    held_.push_back(std::move(message));
  }
}

void Control::dispatch(const Held& message) {
  if (over()) return;
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

void Control::begin() {
  const std::lock_guard lock(mutex_);
  begun_ = true;
  changed_.notify_all();
}

void Control::all_left() {
  const std::lock_guard lock(mutex_);
  if (!failure_) all_left_ = true;
  changed_.notify_all();
}

bool Control::end(const Failure& failure) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_ || all_left_) return false;
    failure_ = failure;
    changed_.notify_all();
  }
  if (listening_) report_abort();
  return true;
}

void Control::report_abort() {
  const std::optional<Failure> why = failure();
  if (!why || std::exchange(reported_, true)) return;
  for (const auto& handler : on_abort_) handler(*why);
}

bool Control::over() const {
  const std::lock_guard lock(mutex_);
  return failure_ || all_left_;
}

std::optional<Failure> Control::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void Control::heard(int rank, Clock::time_point when) {
  const std::lock_guard lock(mutex_);
  heartbeats_[static_cast<std::size_t>(rank)].heard = when;
}

void Control::has_left(int rank) {
  const std::lock_guard lock(mutex_);
  heartbeats_[static_cast<std::size_t>(rank)].left = true;
}

bool Peer::serve_frames(int rank, Connection& connection, short events, Clock::time_point& heard) {
  bool open = !(events & POLLOUT) || connection.write();
  if (events & (POLLIN | POLLHUP | POLLERR)) {
    open = connection.read() && open;
    heard = Clock::now();
    control_.heard(rank, heard);
  }
  try {
    // The last frames of a closed connection count too.
    while (auto frame = connection.next_frame()) handle(rank, std::move(*frame));
  } catch (const InputError& error) {
    end(fmt::format("process {} sent an invalid frame: {}", rank, error.what()));
    open = false;
  }
  return open;
}

std::string describe_ranks(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "process" : "processes";
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    text += i ? ", " : " ";
    text += last == i ? fmt::format("{}", ranks[i])
                      : fmt::format("{}{}{}", ranks[i], last == i + 1 ? ", " : "-", ranks[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace twobw::control
