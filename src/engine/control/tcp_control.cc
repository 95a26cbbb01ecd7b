#include "engine/control/tcp_control.h"

#include <poll.h>
#include <pthread.h>

#include "core/base/error.h"

namespace twobw::control {

TcpControl::TcpControl(int rank, int size, const Options& options, const MakeParty& make)
    : options_(options), session_(rank, size), party_(make(session_)), thread_([this] { run(); }) {}

TcpControl::~TcpControl() {
  session_.stop();
  thread_.join();
}

void TcpControl::on(Topic topic, std::function<void(int from, std::string_view body)> handler) {
  session_.on(topic, std::move(handler));
}

void TcpControl::on_abort(std::function<void(const Failure& failure)> handler) {
  session_.on_abort(std::move(handler));
}

void TcpControl::post(int to, Topic topic, std::string body) {
  if (body.size() > kMaxBody)
    fail_run("a control message of {} bytes is too long; at most {} are allowed", body.size(), kMaxBody);
  session_.post({.topic = topic, .from = rank(), .to = to, .body = std::move(body)});
}

void TcpControl::send(int to, Topic topic, std::string body) {
  TWOBW_ASSERT(to >= 0 && to < size(), "to {} of {}", to, size());
  post(to, topic, std::move(body));
}

void TcpControl::send_to_others(Topic topic, std::string body) {
  post(kOthers, topic, std::move(body));
}

void TcpControl::abort(const Failure& failure) {
  session_.post(to_frame(failure, rank()));
}

void TcpControl::leave() {
  TWOBW_ASSERT(std::this_thread::get_id() != thread_.get_id(), "rank {} leaves in a handler", rank());
  session_.post({.kind = Frame::Kind::Left, .from = rank()});
  session_.wait_all_left();
}

void TcpControl::run() {
  pthread_setname_np(pthread_self(), "control");
  Clock::time_point next = Clock::now();
  while (true) {
    const bool stopping = session_.stopping();
    for (Frame& frame : session_.take()) party_->own(std::move(frame));
    if (stopping) break;
    std::vector<pollfd> polled = party_->polled();
    polled.push_back({.fd = session_.waker().get(), .events = POLLIN, .revents = 0});
    poll(polled.data(), polled.size(), poll_time(next));
    if (polled.back().revents) session_.waker().clear();
    polled.pop_back();
    party_->serve(polled);
    next = party_->tick(Clock::now());
  }
  close_well(party_->finish(), options_.farewell_s);
}

}  // namespace twobw::control
