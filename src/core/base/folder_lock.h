// Lock of a folder that one process at a time may write.
#pragma once

#include <optional>
#include <string>

namespace twobw {

// While it lives, a file `.lock` lies in the folder, and no other process gets it. The system gives it back
// when the process ends, however that happens: a file that stays behind locks nothing.
class FolderLock {
 public:
  // Locks nothing.
  FolderLock() = default;
  // Waits for another that has it; nothing: that still has it after `patience_s`. Where the folder cannot be
  // written, or its file system has no locks, it locks nothing.
  static std::optional<FolderLock> take(const std::string& folder, double patience_s);
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&& other) noexcept;
  ~FolderLock();

  bool is_held() const { return file_ >= 0; }
  // The folder has been renamed, the lock with it.
  void follow_to(const std::string& folder);

 private:
  FolderLock(int file, std::string path) : file_(file), path_(std::move(path)) {}

  int file_ = -1;
  std::string path_;
};

}  // namespace twobw
