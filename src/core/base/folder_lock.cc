#include "core/base/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

namespace twobw {
namespace {

std::string file_in(const std::string& folder) {
  return folder + "/.lock";
}

// True if the path still leads to the open file: the previous holder may have removed or renamed it.
bool leads_to(const std::string& path, int file) {
  struct stat at_path {
  }, opened{};
  return stat(path.c_str(), &at_path) == 0 && fstat(file, &opened) == 0 && at_path.st_ino == opened.st_ino &&
         at_path.st_dev == opened.st_dev;
}

}  // namespace

std::optional<FolderLock> FolderLock::take(const std::string& folder, double patience_s) {
  using Clock = std::chrono::steady_clock;
  const auto until =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(patience_s));
  const std::string path = file_in(folder);
  while (true) {
    const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (file < 0) return FolderLock();
    if (flock(file, LOCK_EX | LOCK_NB) == 0) {
      if (leads_to(path, file)) return FolderLock(file, path);
      close(file);
      continue;
    }
    const bool waits = errno == EWOULDBLOCK || errno == EINTR;
    close(file);
    if (!waits) {
      unlink(path.c_str());
      return FolderLock();
    }
    if (Clock::now() >= until) return std::nullopt;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

FolderLock::FolderLock(FolderLock&& other) noexcept
    : file_(std::exchange(other.file_, -1)), path_(std::move(other.path_)) {}

FolderLock& FolderLock::operator=(FolderLock&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(path_, other.path_);
  return *this;
}

// Removes the file before releasing the lock, while no other process can hold it.
FolderLock::~FolderLock() {
  if (file_ < 0) return;
  if (leads_to(path_, file_)) unlink(path_.c_str());
  close(file_);
}

void FolderLock::follow_to(const std::string& folder) {
  path_ = file_in(folder);
}

}  // namespace twobw
