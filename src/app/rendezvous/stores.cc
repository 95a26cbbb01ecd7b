#include "app/rendezvous/stores.h"

#include <c10/util/Logging.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

#include "core/base/codec.h"
#include "core/base/error.h"
#include "core/base/failures.h"
#include "core/base/text.h"

namespace twobw::rendezvous {
namespace {

std::string key_of(const std::string& job, const char* what) {
  return fmt::format("twobw/{}/{}", job, what);
}

// Silences LibTorch, which logs each failed attempt with a stack trace; our own error is one sentence.
class QuietLog {
 public:
  QuietLog() {
    if (getenv("TORCH_CPP_LOG_LEVEL") == nullptr) FLAGS_caffe2_log_level = c10::GLOG_FATAL;
  }
  // The thread of a failed attempt may still log.
  void restore() const { FLAGS_caffe2_log_level = before_; }

 private:
  const int before_ = FLAGS_caffe2_log_level;
};

// The value of some work, or the reason for its failure.
template <typename Value>
struct Answer {
  std::optional<Value> value;
  std::string why;
};

// Does the work on a thread of its own, because LibTorch's client waits for a silent store forever. After the
// timeout the thread is left behind, and the reason is "SILENCE within N s".
template <typename Work>
auto within(double seconds, const char* silence, Work work) {
  using Value = std::invoke_result_t<Work>;
  const QuietLog log;
  try {
    std::packaged_task<Value()> task(std::move(work));
    auto result = task.get_future();
    std::thread(std::move(task)).detach();
    if (result.wait_for(std::chrono::duration<double>(seconds)) != std::future_status::ready)
      return Answer<Value>{.value = {}, .why = fmt::format("{} within {:g} s", silence, seconds)};
    Answer<Value> answer{.value = result.get(), .why = {}};
    log.restore();
    return answer;
  } catch (const std::exception& error) {
    return Answer<Value>{.value = {}, .why = message_of(error)};
  }
}

int parse_port(const std::string& text, const std::string& published) {
  const std::optional<int> port = parse_number<int>(text);
  if (!port || *port < 1 || *port > 65535)
    fail_run("torchrun's store says that process 0 listens at '{}', which is not an address", published);
  return *port;
}

[[noreturn]] void refuse_use(const char* what) {
  fail_run("the store between processes was asked to {}, which it does not do", what);
}

}  // namespace

AgentStore connect_to_agent(const launch::World& world, double seconds) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(world.master_port);
  options.waitWorkers = false;
  // LibTorch's own timeout; the wait below ends first, with a sentence of its own.
  options.timeout =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::duration<double>(2 * seconds));
  const auto [store, why] =
      within(seconds, "no answer", [options, address = world.master_address]() -> AgentStore {
        return c10::make_intrusive<c10d::TCPStore>(address, options);
      });
  if (store) return *store;
  fail_run("torchrun's store at {}:{} cannot be reached: {}; torchrun may have ended", world.master_address,
           world.master_port, why);
}

void publish(const AgentStore& store, const std::string& job, const RendezvousPoint& point, double seconds) {
  const auto [published, why] = within(seconds, "no answer", [store, job, point] {
    // The endpoint comes last, so that its readers find the token.
    store->set(key_of(job, "token"), point.token);
    store->set(key_of(job, "endpoint"), fmt::format("{}:{}", point.endpoint.address, point.endpoint.port));
    return true;
  });
  if (published) return;
  fail_run("process 0 cannot say in torchrun's store where it listens: {}; torchrun may have ended", why);
}

RendezvousPoint find_rendezvous_point(const AgentStore& store, const std::string& job, double seconds) {
  const auto [found, why] = within(seconds, "nothing", [store, job] {
    std::string endpoint = store->get_to_str(key_of(job, "endpoint"));
    return std::pair(std::move(endpoint), store->get_to_str(key_of(job, "token")));
  });
  if (!found) fail_run("process 0 has not said in torchrun's store where it listens: {}", why);
  const auto& [endpoint, token] = *found;
  const std::size_t colon = std::min(endpoint.rfind(':'), endpoint.size());
  const std::string port = endpoint.substr(std::min(colon + 1, endpoint.size()));
  return {.endpoint = {.address = endpoint.substr(0, colon), .port = parse_port(port, endpoint)},
          .token = token};
}

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
  fail_run("timed out after {:g} s waiting for the address of another process ('{}')",
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
