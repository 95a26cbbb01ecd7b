#include "rendezvous/agent_store.h"

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <charconv>
#include <chrono>

#include "base/error.h"

namespace twobw::rendezvous {
namespace {

std::string key_of(const std::string& job, const char* what) {
  return fmt::format("twobw/{}/{}", job, what);
}

// Without the stack that LibTorch adds.
std::string first_words(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

int parse_port(const std::string& text, const std::string& published) {
  int port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port < 1 || port > 65535)
    fail_run("torchrun's store says that process 0 listens at '{}', which is no address", published);
  return port;
}

}  // namespace

c10::intrusive_ptr<c10d::Store> connect_to_agent(const launch::World& world, double seconds) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(world.master_port);
  options.waitWorkers = false;
  options.timeout =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::duration<double>(seconds));
  try {
    return c10::make_intrusive<c10d::TCPStore>(world.master_address, options);
  } catch (const std::exception& error) {
    fail_run("torchrun's store at {}:{} does not answer: {}", world.master_address, world.master_port,
             first_words(error));
  }
}

void publish(c10d::Store& store, const std::string& job, const MeetingPoint& point) {
  // The endpoint last: who reads it finds the token.
  store.set(key_of(job, "token"), point.token);
  store.set(key_of(job, "endpoint"), fmt::format("{}:{}", point.endpoint.address, point.endpoint.port));
}

MeetingPoint find_meeting_point(c10d::Store& store, const std::string& job) {
  try {
    const std::string endpoint = store.get_to_str(key_of(job, "endpoint"));
    const std::size_t colon = std::min(endpoint.rfind(':'), endpoint.size());
    const std::string port = endpoint.substr(std::min(colon + 1, endpoint.size()));
    return {.endpoint = {.address = endpoint.substr(0, colon), .port = parse_port(port, endpoint)},
            .token = store.get_to_str(key_of(job, "token"))};
  } catch (const RunError&) {
    throw;
  } catch (const std::exception& error) {
    fail_run("process 0 has not said in torchrun's store where it listens: {}", first_words(error));
  }
}

}  // namespace twobw::rendezvous
