#include "core/base/unhandled.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <list>
#include <mutex>
#include <thread>
#include <utility>

namespace twobw {
namespace {

// For the threads of the program to end, and to print their report.
constexpr std::chrono::seconds kPatience(10);

// Never destroyed: a thread may be lost at any time.
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

// On a thread of its own: the lost one may hold a lock that a hook needs.
void wait_for_hooks(const std::string& reason) {
  if (std::this_thread::get_id() == state().main) return;  // it is the one that would end
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
  std::string reason = "a thread failed for want of memory";
  try {
    reason = describe_current_exception();
    wait_for_hooks(reason);
  } catch (...) {  // no memory or no thread is left
  }
  if (ftrylockfile(stdout) == 0) {
    std::fflush(stdout);
    funlockfile(stdout);
  }
  std::fprintf(stderr, "twobw: %s%s\n", state().prefix.c_str(), reason.c_str());
  std::_Exit(1);
}

}  // namespace

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
