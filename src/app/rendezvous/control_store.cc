#include "app/rendezvous/control_store.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>

#include "core/base/codec.h"
#include "core/base/error.h"

namespace twobw::rendezvous {

using Bytes = std::vector<std::uint8_t>;

struct ControlStore::Values {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, Bytes> by_key;
  std::optional<control::Failure> failure;  // after an abort

  void set(const std::string& key, Bytes value) {
    std::lock_guard lock(mutex);
    by_key[key] = std::move(value);
    changed.notify_all();
  }
  bool has(const std::vector<std::string>& keys) const {
    return std::ranges::all_of(keys, [this](const std::string& key) { return by_key.contains(key); });
  }
};

namespace {

[[noreturn]] void refuse_use(const char* what) {
  fail_run("the store between processes was asked to {}, which it does not do", what);
}

}  // namespace

ControlStore::ControlStore(control::Control& control, std::chrono::milliseconds timeout)
    : ControlStore(control, timeout, std::make_shared<Values>()) {
  control.on(control::Topic::Store, [values = values_](int, std::string_view body) {
    auto [key, value] = from_bytes<std::string, Bytes>(body);
    values->set(key, std::move(value));
  });
  control.on_abort([values = values_](const control::Failure& failure) {
    std::lock_guard lock(values->mutex);
    values->failure = failure;
    values->changed.notify_all();
  });
}

ControlStore::ControlStore(control::Control& control, std::chrono::milliseconds timeout,
                           std::shared_ptr<Values> values)
    : Store(timeout), control_(control), values_(std::move(values)) {}

c10::intrusive_ptr<c10d::Store> ControlStore::clone() {
  return c10::intrusive_ptr<ControlStore>::unsafe_steal_from_new(
      new ControlStore(control_, timeout_, values_));
}

void ControlStore::set(const std::string& key, const Bytes& value) {
  values_->set(key, value);
  control_.send_to_others(control::Topic::Store, to_bytes(key, value));
}

Bytes ControlStore::get(const std::string& key) {
  wait({key});
  std::lock_guard lock(values_->mutex);
  return values_->by_key.at(key);
}

void ControlStore::wait(const std::vector<std::string>& keys) {
  wait(keys, timeout_);
}

void ControlStore::wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) {
  std::unique_lock lock(values_->mutex);
  const auto done = [&] { return values_->has(keys) || values_->failure; };
  if (timeout == kNoTimeout) {
    values_->changed.wait(lock, done);
  } else {
    values_->changed.wait_for(lock, timeout, done);
  }
  if (values_->has(keys)) return;
  if (values_->failure) values_->failure->raise();
  const auto missing =
      std::ranges::find_if(keys, [this](const std::string& key) { return !values_->by_key.contains(key); });
  fail_run("another process has not told within {:g} s how it is reached ('{}')",
           std::chrono::duration<double>(timeout).count(), *missing);
}

bool ControlStore::check(const std::vector<std::string>& keys) {
  std::lock_guard lock(values_->mutex);
  return values_->has(keys);
}

std::int64_t ControlStore::add(const std::string&, std::int64_t) {
  refuse_use("count");
}

bool ControlStore::deleteKey(const std::string&) {
  refuse_use("delete a key");
}

std::int64_t ControlStore::getNumKeys() {
  refuse_use("count its keys");
}

}  // namespace twobw::rendezvous
