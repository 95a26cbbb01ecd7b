#include "core/base/folder_lock.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <future>

namespace twobw {
namespace {

namespace fs = std::filesystem;

// flock(2) locks open files, not processes: two locks of one process behave like those of two processes.
class FolderLockTest : public testing::Test {
 protected:
  FolderLockTest() {
    fs::remove_all(root_);
    fs::create_directories(folder_);
  }
  ~FolderLockTest() override { fs::remove_all(root_); }

  const fs::path root_ = fs::path(testing::TempDir()) / ("folder_lock." + std::to_string(getpid()));
  const std::string folder_ = root_ / "run";
};

TEST_F(FolderLockTest, OneHasItAndLeavesNothing) {
  {
    const auto first = FolderLock::take(folder_, 0);
    ASSERT_TRUE(first && first->is_held());
    EXPECT_FALSE(FolderLock::take(folder_, 0));
  }
  EXPECT_TRUE(fs::is_empty(folder_));
  const auto second = FolderLock::take(folder_, 0);
  EXPECT_TRUE(second && second->is_held());
}

TEST_F(FolderLockTest, TheNextWaits) {
  auto first = FolderLock::take(folder_, 0);
  auto next = std::async(std::launch::async, [&] { return FolderLock::take(folder_, 60); });
  first.reset();
  EXPECT_TRUE(next.get()->is_held());
}

TEST_F(FolderLockTest, AFileThatStayedBehindLocksNothing) {
  { const auto first = FolderLock::take(folder_, 0); }
  {
    std::FILE* file = std::fopen((folder_ + "/.lock").c_str(), "w");
    std::fclose(file);
  }
  EXPECT_TRUE(FolderLock::take(folder_, 0)->is_held());
}

TEST_F(FolderLockTest, AFolderThatIsRenamedTakesItAlong) {
  auto former = FolderLock::take(folder_, 0);
  fs::rename(folder_, folder_ + ".1");
  former->follow_to(folder_ + ".1");
  fs::create_directories(folder_);
  const auto now = FolderLock::take(folder_, 0);
  EXPECT_TRUE(now && now->is_held());
  former.reset();
  EXPECT_TRUE(fs::is_empty(folder_ + ".1"));
  EXPECT_FALSE(FolderLock::take(folder_, 0));
}

TEST_F(FolderLockTest, WhereThereIsNoFolderItLocksNothing) {
  const auto lock = FolderLock::take(folder_ + "/nowhere", 0);
  ASSERT_TRUE(lock);
  EXPECT_FALSE(lock->is_held());
}

}  // namespace
}  // namespace twobw
