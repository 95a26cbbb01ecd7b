#include "app/rendezvous/agent_store.h"

#include <c10/util/Logging.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <charconv>
#include <chrono>
#include <cstdlib>
#include <future>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

#include "core/base/error.h"
#include "core/base/unhandled.h"

namespace twobw::rendezvous {
namespace {

std::string key_of(const std::string& job, const char* what) {
  return fmt::format("twobw/{}/{}", job, what);
}

// LibTorch logs each failed attempt with a stack trace, up to this level; the failure itself is one sentence.
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

// Does the work on a thread of its own, since LibTorch's client waits for a silent store without a limit.
// Null after that time: the thread is left behind.
template <typename Work>
std::optional<std::invoke_result_t<Work>> within(double seconds, Work work) {
  const QuietLog log;
  std::packaged_task<std::invoke_result_t<Work>()> task(std::move(work));
  auto result = task.get_future();
  std::thread(std::move(task)).detach();
  if (result.wait_for(std::chrono::duration<double>(seconds)) != std::future_status::ready)
    return std::nullopt;
  auto value = result.get();
  log.restore();
  return value;
}

int parse_port(const std::string& text, const std::string& published) {
  int port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port < 1 || port > 65535)
    fail_run("torchrun's store says that process 0 listens at '{}', which is no address", published);
  return port;
}

}  // namespace

AgentStore connect_to_agent(const launch::World& world, double seconds) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(world.master_port);
  options.waitWorkers = false;
  // LibTorch's own timeout; the wait below ends first, with a sentence of its own.
  options.timeout =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::duration<double>(2 * seconds));
  std::string why = fmt::format("no answer within {:g} s", seconds);
  try {
    const auto store = within(seconds, [options, address = world.master_address]() -> AgentStore {
      return c10::make_intrusive<c10d::TCPStore>(address, options);
    });
    if (store) return *store;
  } catch (const std::exception& error) {
    why = message_of(error);
  }
  fail_run("torchrun's store at {}:{} cannot be reached: {}; torchrun may have ended", world.master_address,
           world.master_port, why);
}

void publish(const AgentStore& store, const std::string& job, const MeetingPoint& point, double seconds) {
  std::string why = fmt::format("no answer within {:g} s", seconds);
  try {
    const auto published = within(seconds, [store, job, point] {
      // The endpoint last: who reads it finds the token.
      store->set(key_of(job, "token"), point.token);
      store->set(key_of(job, "endpoint"), fmt::format("{}:{}", point.endpoint.address, point.endpoint.port));
      return true;
    });
    if (published) return;
  } catch (const std::exception& error) {
    why = message_of(error);
  }
  fail_run("process 0 cannot say in torchrun's store where it listens: {}; torchrun may have ended", why);
}

MeetingPoint find_meeting_point(const AgentStore& store, const std::string& job, double seconds) {
  using Texts = std::pair<std::string, std::string>;
  std::optional<Texts> found;
  std::string why = fmt::format("nothing within {:g} s", seconds);
  try {
    found = within(seconds, [store, job] {
      std::string endpoint = store->get_to_str(key_of(job, "endpoint"));
      return Texts(std::move(endpoint), store->get_to_str(key_of(job, "token")));
    });
  } catch (const std::exception& error) {
    why = message_of(error);
  }
  if (!found) fail_run("process 0 has not said in torchrun's store where it listens: {}", why);
  const auto& [endpoint, token] = *found;
  const std::size_t colon = std::min(endpoint.rfind(':'), endpoint.size());
  const std::string port = endpoint.substr(std::min(colon + 1, endpoint.size()));
  return {.endpoint = {.address = endpoint.substr(0, colon), .port = parse_port(port, endpoint)},
          .token = token};
}

}  // namespace twobw::rendezvous
