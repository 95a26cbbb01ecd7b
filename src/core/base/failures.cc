#include "core/base/failures.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <list>
#include <mutex>
#include <new>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

namespace twobw {
namespace {

// "; the limit on processes is 64 (ulimit -u)"; empty if unlimited. `unit`: bytes in the unit of the shell's
// command.
std::string limit(__rlimit_resource resource, std::string_view of, const char* command, rlim_t unit = 1) {
  rlimit now{};
  if (getrlimit(resource, &now) != 0 || now.rlim_cur == RLIM_INFINITY) return {};
  return fmt::format("; the limit on {} is {}{} ({})", of, now.rlim_cur / unit, unit == 1024 ? " KiB" : "",
                     command);
}

std::string_view first_line(const std::exception& error) {
  const std::string_view what = error.what();
  return what.substr(0, what.find('\n'));
}

// Time for the other threads to end and to print their report.
constexpr std::chrono::seconds kPatience(10);

// Never destroyed: a thread may fail at any time.
struct State {
  std::string prefix;
  std::thread::id main;
  std::atomic<bool> lost = false;
  std::mutex mutex;  // also while a hook runs
  std::list<UnhandledHook::End> hooks;
};

State& state() {
  static State& state = *new State;
  return state;
}

std::string describe_current_exception() {
  try {
    if (const auto current = std::current_exception()) std::rethrow_exception(current);
    return "a thread was ended by std::terminate";
  } catch (const std::exception& error) {
    return "a thread failed: " + message_of(error);
  } catch (...) {
    return "a thread failed by an exception of an unknown type";
  }
}

void run_hooks(const std::string& reason) {
  std::lock_guard lock(state().mutex);
  for (const auto& end : state().hooks) end(reason);
}

// Runs the hooks on another thread: the failed one may hold a lock that a hook needs.
void wait_for_hooks(const std::string& reason) {
  if (std::this_thread::get_id() == state().main) return;  // the hooks would wait for it
  {
    std::unique_lock lock(state().mutex, std::try_to_lock);
    if (lock && state().hooks.empty()) return;
  }
  std::thread(run_hooks, reason).detach();
  std::this_thread::sleep_for(kPatience);
}

[[noreturn]] void handle() {
  if (state().lost.exchange(true)) {
    while (true) pause();  // the first one ends the program
  }
  std::string reason = "a thread failed: out of memory";
  try {
    reason = describe_current_exception();
    wait_for_hooks(reason);
  } catch (...) {  // out of memory or threads
  }
  if (ftrylockfile(stdout) == 0) {
    std::fflush(stdout);
    funlockfile(stdout);
  }
  std::fprintf(stderr, "twobw: %s%s\n", state().prefix.c_str(), reason.c_str());
  std::_Exit(1);
}

}  // namespace

std::optional<SystemFailure> system_failure(const std::exception& error) {
  // LibTorch's allocator for CPUs throws an exception of its own.
  const bool no_memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
                         first_line(error).find("can't allocate memory") != std::string_view::npos;
  if (no_memory) return SystemFailure{"out of memory" + limit(RLIMIT_AS, "memory", "ulimit -v", 1024)};
  if (const auto* path = dynamic_cast<const std::filesystem::filesystem_error*>(&error)) {
    return SystemFailure{
        fmt::format("'{}' cannot be used: {}", path->path1().string(), path->code().message()), true};
  }
  const auto* system = dynamic_cast<const std::system_error*>(&error);
  if (system == nullptr || system->code().value() != EAGAIN) return std::nullopt;
  return SystemFailure{fmt::format("a thread cannot be started: {}{}", system->code().message(),
                                   limit(RLIMIT_NPROC, "processes", "ulimit -u")),
                       true};
}

std::string describe_failure(const std::exception& error) {
  const std::optional<SystemFailure> failure = system_failure(error);
  return failure ? failure->sentence : std::string(first_line(error));
}

std::string message_of(const std::exception& error) {
  std::string text = error.what();
  text = text.substr(0, text.find('\n'));
  const bool enforced = text.starts_with("[enforce fail");
  const std::size_t place = text.starts_with('[') ? text.find("] ") : std::string::npos;
  if (place == std::string::npos) return text;
  text = text.substr(place + 2);
  const std::size_t condition = enforced ? text.find(". ") : std::string::npos;
  if (condition == std::string::npos || condition + 2 == text.size()) return text;
  return text.substr(condition + 2);
}

void report_unhandled_exceptions(std::string prefix) {
  state().prefix = std::move(prefix);
  state().main = std::this_thread::get_id();
  std::set_terminate(handle);
}

bool thread_is_lost() {
  return state().lost;
}

UnhandledHook::UnhandledHook(End end) {
  std::lock_guard lock(state().mutex);
  place_ = state().hooks.insert(state().hooks.end(), std::move(end));
}

UnhandledHook::~UnhandledHook() {
  std::lock_guard lock(state().mutex);
  state().hooks.erase(place_);
}

}  // namespace twobw
