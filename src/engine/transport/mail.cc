#include "engine/transport/mail.h"

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>

#include "core/base/error.h"

namespace twobw::transport {

struct Mail::Box {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<int, std::deque<std::string>> words;  // by sender
  std::optional<control::Failure> failure;       // once the run is aborted
};

Mail::Mail(control::Control& control, control::Topic topic)
    : control_(control), topic_(topic), box_(std::make_shared<Box>()) {
  control_.on(topic_, [box = box_](int from, std::string_view body) {
    std::lock_guard lock(box->mutex);
    box->words[from].emplace_back(body);
    box->changed.notify_all();
  });
}

void Mail::send(int to, std::string body) {
  control_.send(to, topic_, std::move(body));
}

void Mail::send_to_others(std::string body) {
  control_.send_to_others(topic_, std::move(body));
}

std::optional<std::string> Mail::take(int from) {
  std::deque<std::string>& words = box_->words[from];
  if (words.empty()) return std::nullopt;
  std::string word = std::move(words.front());
  words.pop_front();
  return word;
}

std::string Mail::receive(int from) {
  std::unique_lock lock(box_->mutex);
  box_->changed.wait(lock, [&] { return !box_->words[from].empty() || box_->failure; });
  std::optional<std::string> word = take(from);
  if (!word) box_->failure->raise();
  return *std::move(word);
}

std::optional<std::string> Mail::poll(int from) {
  std::lock_guard lock(box_->mutex);
  return take(from);
}

void Mail::end(const control::Failure& failure) {
  std::lock_guard lock(box_->mutex);
  if (!box_->failure) box_->failure = failure;
  box_->changed.notify_all();
}

}  // namespace twobw::transport
