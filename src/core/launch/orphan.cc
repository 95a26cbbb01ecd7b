#include "core/launch/orphan.h"

#include <poll.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "core/base/error.h"

namespace twobw::launch {
namespace {

constexpr int kLookAgain = 1000;                       // ms
constexpr const char* kParent = "TWOBW_LAUNCHER_PID";  // across exec

// A descriptor that is readable when the process has ended; -1 if the system has none.
int descriptor_of(pid_t process) {
#ifdef SYS_pidfd_open
  return static_cast<int>(syscall(SYS_pidfd_open, process, 0));
#else
  return -1;
#endif
}

std::string describe_end(const std::string& launcher) {
  return fmt::format("the launcher (process {} of this host) has ended, so this process ends too", launcher);
}

void watch(pid_t parent, const std::string& prefix) {
  pthread_setname_np(pthread_self(), "launcher");
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);  // other threads handle them
  pollfd polled = {.fd = descriptor_of(parent), .events = POLLIN, .revents = 0};
  while (getppid() == parent && poll(&polled, 1, kLookAgain) <= 0) {
  }
  std::fputs(fmt::format("twobw: {}{}\n", prefix, describe_end(std::to_string(parent))).c_str(), stderr);
  kill(getpid(), SIGTERM);
}

}  // namespace

bool launcher_stays(const Environment& environment) {
  return environment("TORCHELASTIC_RUN_ID").has_value() || environment("OMPI_COMM_WORLD_RANK").has_value();
}

void remember_parent() {
  setenv(kParent, std::to_string(getppid()).c_str(), /*overwrite=*/1);
}

void end_with_parent(const std::string& prefix) {
  const pid_t parent = getppid();
  const char* remembered = getenv(kParent);
  if (remembered != nullptr && std::to_string(parent) != remembered) fail_run("{}", describe_end(remembered));
  unsetenv(kParent);
  std::thread(watch, parent, prefix).detach();
}

}  // namespace twobw::launch
