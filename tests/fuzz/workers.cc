#include "tests/fuzz/workers.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>
#include <span>

#include "core/base/error.h"

namespace twobw::fuzz {
namespace {

#ifdef __SANITIZE_ADDRESS__
constexpr int kMostSeconds = 5;
#else
constexpr int kMostSeconds = 1;
#endif
constexpr int kFailed = 3;  // exit code of a worker with a failure in its slot

// State of a worker, in shared memory.
struct alignas(64) Slot {
  std::atomic<std::uint64_t> current, inputs, accepted;
  std::array<char, 1000> failure;
};

class Slots {
 public:
  explicit Slots(int count) : count_(static_cast<std::size_t>(count)) {
    void* const memory = mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) fail_run("no shared memory for workers: {}", std::strerror(errno));
    first_ = static_cast<Slot*>(memory);
    for (std::size_t i = 0; i < count_; ++i) new (first_ + i) Slot{};
  }
  ~Slots() { munmap(first_, bytes()); }
  Slots(const Slots&) = delete;
  Slots& operator=(const Slots&) = delete;

  std::span<Slot> all() const { return {first_, count_}; }

 private:
  std::size_t bytes() const { return count_ * sizeof(Slot); }

  std::size_t count_;
  Slot* first_ = nullptr;
};

// SIGPROF ends the process after `seconds` of CPU time; 0: never.
void arm_timer(int seconds) {
  const itimerval timer = {.it_interval = {}, .it_value = {.tv_sec = seconds, .tv_usec = 0}};
  setitimer(ITIMER_PROF, &timer, nullptr);
}

// Runs every jobs-th input from `first` on. Ends the process.
[[noreturn]] void work_alone(const Target& target, const Corpus& corpus, const Work& work,
                             std::uint64_t first, Slot& slot) {
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  std::signal(SIGPROF, SIG_DFL);
  const auto begin = std::chrono::steady_clock::now();
  const auto is_over = [&] {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
    return work.seconds > 0 && passed.count() > work.seconds;
  };
  const auto step = static_cast<std::uint64_t>(work.jobs);
  for (std::uint64_t number = first; number < work.inputs; number += step) {
    // All files of the corpus are tried.
    if (number >= corpus.texts.size() && is_over()) break;
    slot.current = number;
    arm_timer(kMostSeconds);
    bool accepted = false;
    const std::string input = make_input(corpus, target, work.seed, number);
    const std::string failure = judge(target, corpus, number, input, accepted);
    if (!failure.empty()) {
      failure.copy(slot.failure.data(), slot.failure.size() - 1);
      _exit(kFailed);
    }
    ++slot.inputs;
    if (accepted) ++slot.accepted;
  }
  arm_timer(0);
  _exit(0);
}

std::string describe_end(int status, const Slot& slot) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == kFailed) return slot.failure.data();
  if (WIFEXITED(status)) return fmt::format("the program ends with code {}", WEXITSTATUS(status));
  if (WTERMSIG(status) == SIGPROF) return fmt::format("it takes more than {} s", kMostSeconds);
  return fmt::format("the program is ended by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
}

}  // namespace

std::string judge(const Target& target, const Corpus& corpus, std::uint64_t number, const std::string& input,
                  bool& accepted) {
  const Attempt made = attempt(target, input);
  accepted = made.accepted;
  if (!made.failure.empty() || number >= corpus.files.size()) return made.failure;
  const Corpus::File& file = corpus.files[number];
  if (file.sentence.empty())
    return accepted ? "" : fmt::format("{}/{} must be accepted: {}", target.name, file.name, made.sentence);
  if (accepted) return fmt::format("{}/{} must be refused", target.name, file.name);
  if (made.sentence.find(file.sentence) != std::string::npos) return "";
  return fmt::format("{}/{} must be refused with '{}', not: {}", target.name, file.name, file.sentence,
                     made.sentence);
}

Done run_inputs(const Target& target, const Corpus& corpus, const Work& work) {
  const Slots slots(work.jobs);
  std::fflush(nullptr);  // buffers are copied to the workers
  std::vector<pid_t> workers;
  for (Slot& slot : slots.all()) {
    const pid_t worker = fork();
    if (worker == 0) work_alone(target, corpus, work, workers.size(), slot);
    if (worker < 0) fail_run("no process for a worker: {}", std::strerror(errno));
    workers.push_back(worker);
  }
  Done done;
  for (std::size_t i = 0; i < workers.size(); ++i) {
    const Slot& slot = slots.all()[i];
    int status = 0;
    while (waitpid(workers[i], &status, 0) < 0 && errno == EINTR) continue;
    done.inputs += slot.inputs;
    done.accepted += slot.accepted;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
      done.failures.push_back({slot.current, describe_end(status, slot)});
  }
  return done;
}

}  // namespace twobw::fuzz
