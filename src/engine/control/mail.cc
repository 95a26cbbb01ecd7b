#include "engine/control/mail.h"

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>

namespace twobw::control {

struct Mail::Box {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<int, std::deque<std::string>> messages;  // by sender
  std::optional<Failure> failure;                   // once the run is aborted

  std::optional<std::string> take(int from) {
    std::deque<std::string>& queue = messages[from];
    if (queue.empty()) return std::nullopt;
    std::string message = std::move(queue.front());
    queue.pop_front();
    return message;
  }
  bool ready(int from) { return !messages[from].empty() || failure; }
  std::optional<std::string> take_or_raise(int from) {
    std::optional<std::string> message = take(from);
    if (!message && failure) failure->raise();
    return message;
  }
  void end(const Failure& why) {
    const std::lock_guard lock(mutex);
    if (!failure) failure = why;
    changed.notify_all();
  }
};

Mail::Mail(Control& control) : control_(control), box_(std::make_shared<Box>()) {
  control_.on(Topic::Mail, [box = box_](int from, std::string_view body) {
    const std::lock_guard lock(box->mutex);
    box->messages[from].emplace_back(body);
    box->changed.notify_all();
  });
  control_.on_abort([box = box_](const Failure& failure) { box->end(failure); });
}

void Mail::send(int to, std::string body) {
  control_.send(to, Topic::Mail, std::move(body));
}

void Mail::send_to_others(std::string body) {
  control_.send_to_others(Topic::Mail, std::move(body));
}

std::string Mail::receive(int from) {
  std::unique_lock lock(box_->mutex);
  box_->changed.wait(lock, [&] { return box_->ready(from); });
  return *box_->take_or_raise(from);
}

std::optional<std::string> Mail::receive(int from, std::chrono::steady_clock::time_point until) {
  std::unique_lock lock(box_->mutex);
  box_->changed.wait_until(lock, until, [&] { return box_->ready(from); });
  return box_->take_or_raise(from);
}

std::optional<std::string> Mail::poll(int from) {
  const std::lock_guard lock(box_->mutex);
  return box_->take(from);
}

void Mail::end(const Failure& failure) {
  box_->end(failure);
}

}  // namespace twobw::control
