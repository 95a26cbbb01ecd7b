#include "engine/control/control.h"

#include <poll.h>
#include <pthread.h>

#include "engine/control/session.h"

namespace twobw::control {

Control::Control(int rank, int size, const Options& options, const MakePeer& make)
    : options_(options),
      session_(std::make_unique<Session>(rank, size)),
      peer_(make(*session_)),
      thread_([this] { run(); }) {}

Control::~Control() {
  session_->stop();
  thread_.join();
}

int Control::rank() const {
  return session_->rank();
}

int Control::size() const {
  return session_->size();
}

void Control::on(Topic topic, std::function<void(int from, std::string_view body)> handler) {
  session_->on(topic, std::move(handler));
}

void Control::on_abort(std::function<void(const Failure& failure)> handler) {
  session_->on_abort(std::move(handler));
}

void Control::start() {
  session_->start();
}

void Control::post(int to, Topic topic, std::string body) {
  if (body.size() > kMaxBody)
    fail_run("a control message of {} bytes is too long; at most {} are allowed", body.size(), kMaxBody);
  session_->post({.topic = topic, .from = rank(), .to = to, .body = std::move(body)});
}

void Control::send(int to, Topic topic, std::string body) {
  TWOBW_ASSERT(to >= 0 && to < size(), "to {} of {}", to, size());
  post(to, topic, std::move(body));
}

void Control::send_to_others(Topic topic, std::string body) {
  post(kOthers, topic, std::move(body));
}

void Control::abort(const Failure& failure) {
  session_->post(to_frame(failure, rank()));
}

std::vector<Liveness> Control::liveness() const {
  return session_->liveness();
}

void Control::wait_begun() {
  session_->wait_begun();
}

void Control::leave() {
  TWOBW_ASSERT(std::this_thread::get_id() != thread_.get_id(), "rank {} leaves in a handler", rank());
  session_->post({.kind = Frame::Kind::Left, .from = rank()});
  session_->wait_all_left();
}

void Control::run() {
  pthread_setname_np(pthread_self(), "control");
  Clock::time_point next = Clock::now();
  while (true) {
    const bool stopping = session_->stopping();
    for (Frame& frame : session_->take()) peer_->post_local(std::move(frame));
    if (stopping) break;
    std::vector<pollfd> polled = peer_->polled();
    polled.push_back({.fd = session_->waker().get(), .events = POLLIN, .revents = 0});
    poll(polled.data(), polled.size(), poll_time(next));
    if (polled.back().revents) session_->waker().clear();
    polled.pop_back();
    peer_->serve(polled);
    next = peer_->tick(Clock::now());
  }
  close_well(peer_->finish(), options_.farewell_s);
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
