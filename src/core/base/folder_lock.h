// Lock of a folder that only one process at a time may write.
#pragma once

#include <optional>
#include <string>

namespace twobw {

// While it exists, the folder has a file `.lock`, and no other process gets the lock. The system releases it
// when the process ends in any way: a leftover file locks nothing.
class FolderLock {
 public:
  // Locks nothing.
  FolderLock() = default;
  // Waits for the holder of the lock; null if it still holds it after `patience_s`. If the folder cannot be
  // written or its file system has no locks, returns a lock that is not held.
  static std::optional<FolderLock> take(const std::string& folder, double patience_s);
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&& other) noexcept;
  ~FolderLock();

  bool is_held() const { return file_ >= 0; }
  // Must be called after the folder is renamed.
  void follow_to(const std::string& folder);

 private:
  FolderLock(int file, std::string path) : file_(file), path_(std::move(path)) {}

  int file_ = -1;
  std::string path_;
};

}  // namespace twobw
