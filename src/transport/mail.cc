#include "transport/mail.h"

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>

#include "base/bytes.h"
#include "base/error.h"

namespace twobw::transport {

struct Mail::Word {
  std::string text;
  bool refuses = false;  // the input
};

struct Mail::Box {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<int, std::deque<Word>> words;  // by sender
  std::optional<std::string> reason;      // of the abort
};

namespace {

std::string body_of(std::string_view text, bool refuses) {
  return ByteWriter().add(refuses).take().append(text);
}

}  // namespace

Mail::Mail(control::Control& control, control::Topic topic)
    : control_(control), topic_(topic), box_(std::make_shared<Box>()) {
  control_.on(topic_, [box = box_](int from, std::string_view body) {
    ByteReader reader(body);
    const bool refuses = reader.take<bool>();
    std::lock_guard lock(box->mutex);
    box->words[from].push_back({std::string(reader.rest()), refuses});
    box->changed.notify_all();
  });
}

void Mail::send(int to, const std::string& body) {
  control_.send(to, topic_, body_of(body, /*refuses=*/false));
}

void Mail::send_to_others(const std::string& body) {
  control_.send_to_others(topic_, body_of(body, /*refuses=*/false));
}

void Mail::refuse_input(const std::string& why) {
  control_.send_to_others(topic_, body_of(why, /*refuses=*/true));
}

// Under the lock.
std::optional<Mail::Word> Mail::take(int from) {
  std::deque<Word>& words = box_->words[from];
  if (words.empty()) return std::nullopt;
  Word word = std::move(words.front());
  words.pop_front();
  return word;
}

std::string Mail::receive(int from) {
  std::unique_lock lock(box_->mutex);
  box_->changed.wait(lock, [&] { return !box_->words[from].empty() || box_->reason; });
  std::optional<Word> word = take(from);
  if (!word) throw RunError(*box_->reason);
  if (word->refuses) fail_input("process {}: {}", from, word->text);
  return std::move(word->text);
}

std::optional<std::string> Mail::poll(int from) {
  std::lock_guard lock(box_->mutex);
  std::optional<Word> word = take(from);
  if (!word || word->refuses) return std::nullopt;
  return std::move(word->text);
}

void Mail::end(const std::string& reason) {
  std::lock_guard lock(box_->mutex);
  if (!box_->reason) box_->reason = reason;
  box_->changed.notify_all();
}

}  // namespace twobw::transport
