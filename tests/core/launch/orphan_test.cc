// Processes whose launcher has died.
#include "core/launch/orphan.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <map>
#include <string>
#include <thread>

#include "core/base/error.h"

namespace twobw::launch {
namespace {

struct Pipe {
  Pipe() { EXPECT_EQ(pipe(ends), 0); }
  void say(char what) const { EXPECT_EQ(write(ends[1], &what, 1), 1); }
  // '-': nobody is left to say anything.
  char hear() const {
    char what = '-';
    return read(ends[0], &what, 1) == 1 ? what : '-';
  }
  int ends[2] = {-1, -1};
};

Pipe from_child;

// Reports when it watches, on request that it still runs, and when it gets the signal to end.
[[noreturn]] void child(const Pipe& asked) {
  std::signal(SIGTERM, [](int) {
    [[maybe_unused]] const auto written = write(from_child.ends[1], "t", 1);
    _exit(0);
  });
  end_with_parent("");
  from_child.say('w');
  asked.hear();
  from_child.say('a');
  while (true) pause();
}

TEST(Orphan, EndsWithTheProcessThatStartedItAndNotWithItsThread) {
  from_child = Pipe();
  const Pipe asked, leave;
  const pid_t parent = fork();
  ASSERT_GE(parent, 0);
  if (parent == 0) {
    std::thread([&] {
      if (fork() == 0) child(asked);
    }).join();
    leave.hear();
    _exit(0);
  }
  EXPECT_EQ(from_child.hear(), 'w');
  asked.say('?');
  EXPECT_EQ(from_child.hear(), 'a');
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  EXPECT_EQ(from_child.hear(), 't');
}

// As after an exec in between which the parent has died.
TEST(Orphan, FailsIfTheParentHasDiedBeforeItWatches) {
  remember_parent();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    try {
      end_with_parent("");
    } catch (const RunError& error) {
      _exit(std::string(error.what()).find("the launcher (process ") == 0 ? 0 : 1);
    }
    _exit(2);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  unsetenv("TWOBW_LAUNCHER_PID");
}

bool stays(const std::map<std::string, std::string>& values) {
  return launcher_stays([&](const char* name) {
    const auto found = values.find(name);
    return found == values.end() ? std::nullopt : std::optional(found->second);
  });
}

TEST(Orphan, WhoseLauncherStays) {
  EXPECT_TRUE(stays({{"RANK", "0"}, {"TORCHELASTIC_RUN_ID", "a"}}));
  EXPECT_TRUE(stays({{"OMPI_COMM_WORLD_RANK", "0"}}));
  EXPECT_FALSE(stays({{"RANK", "0"}, {"WORLD_SIZE", "2"}}));
  EXPECT_FALSE(stays({{"SLURM_PROCID", "0"}}));
  EXPECT_FALSE(stays({}));
}

}  // namespace
}  // namespace twobw::launch
