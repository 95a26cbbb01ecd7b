#include "core/base/output_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "core/base/error.h"

namespace twobw {
namespace {

constexpr std::size_t kBuffer = std::size_t{1} << 20;
constexpr mode_t kMode = 0666;  // less the user's mask

void sync(const std::string& path, int flags) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags);
  // EINVAL: the file system has nothing to sync there.
  const bool synced = file >= 0 && (::fsync(file) == 0 || errno == EINVAL);
  const int reason = errno;
  if (file >= 0) ::close(file);
  if (!synced) fail_run("'{}' cannot be synced: {}", path, std::strerror(reason));
}

std::string parent_of(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

void rename_to(const std::string& temporary, const std::string& path) {
  if (std::rename(temporary.c_str(), path.c_str()) != 0)
    fail_run("'{}' cannot be renamed to '{}': {}", temporary, path, std::strerror(errno));
}

}  // namespace

std::size_t write_bytes(int file, std::span<const std::byte> bytes) {
  std::size_t written = 0;
  while (written < bytes.size()) {
    const ssize_t count = ::write(file, bytes.data() + written, bytes.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) break;
    written += static_cast<std::size_t>(count);
  }
  return written;
}

void fail_write(const std::string& path) {
  const int reason = errno;
  const std::string sentence = fmt::format("'{}' cannot be written: {}", path, std::strerror(reason));
  if (reason == ENOSPC || reason == EDQUOT) throw NoRoom(sentence);
  throw RunError(sentence);
}

OutputFile::OutputFile(std::string path) : path_(std::move(path)) {
  file_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kMode);
  if (file_ < 0) fail_write(path_);
}

OutputFile::OutputFile(std::string path, std::int64_t keep) : path_(std::move(path)), written_(keep) {
  const auto refuse = [this](const std::string& why) {
    if (file_ >= 0) ::close(file_);
    fail_input("'{}' cannot be written: {}", path_, why);
  };
  file_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kMode);
  if (file_ < 0) refuse(std::strerror(errno));
  if (flock(file_, LOCK_EX | LOCK_NB) != 0) refuse("another run is writing it");
  struct stat status {};
  if (fstat(file_, &status) != 0) refuse(std::strerror(errno));
  if (status.st_size < keep) {
    refuse(fmt::format("it has {} bytes, where an earlier run left {}", status.st_size, keep));
  }
  if (ftruncate(file_, keep) != 0 || lseek(file_, keep, SEEK_SET) != keep) refuse(std::strerror(errno));
}

OutputFile::~OutputFile() {
  if (file_ >= 0) ::close(file_);
}

void OutputFile::append(std::span<const std::byte> bytes) {
  if (buffer_.size() + bytes.size() > kBuffer) flush();
  if (bytes.size() <= kBuffer) {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    return;
  }
  const std::size_t written = write_bytes(file_, bytes);
  written_ += static_cast<std::int64_t>(written);
  if (written < bytes.size()) fail_write(path_);
}

// After a failure the buffer holds exactly the bytes that are missing.
void OutputFile::flush() {
  const std::size_t written = write_bytes(file_, buffer_);
  written_ += static_cast<std::int64_t>(written);
  buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(written));
  if (!buffer_.empty()) fail_write(path_);
}

void OutputFile::truncate(std::int64_t size) {
  flush();
  if (ftruncate(file_, size) != 0 || lseek(file_, size, SEEK_SET) != size) fail_write(path_);
  written_ = size;
}

void OutputFile::sync() {
  flush();
  if (fsync(file_) != 0) fail_write(path_);
}

void OutputFile::close() {
  flush();
  if (::close(std::exchange(file_, -1)) != 0) fail_write(path_);
}

void sync_file(const std::string& path) {
  sync(path, 0);
}

void sync_folder(const std::string& path) {
  sync(path, O_DIRECTORY);
}

void publish(const std::string& temporary, const std::string& path) {
  rename_to(temporary, path);
  sync_folder(parent_of(path));
}

void replace_folder(const std::string& temporary, const std::string& path) {
  const std::string former = path + ".removing";
  std::error_code error;
  std::filesystem::remove_all(former, error);
  if (std::filesystem::exists(path)) publish(path, former);
  publish(temporary, path);
  std::filesystem::remove_all(former, error);
}

void replace_text(const std::string& path, const std::string& text) {
  Replacement file(path);
  file.append(text);
  file.replace();
  sync_folder(parent_of(path));
}

Replacement::Replacement(const std::string& path) : path_(path) {
  file_.emplace(path + ".partial");
}

Replacement::~Replacement() {
  if (file_) unlink(file_->path().c_str());
}

void Replacement::replace() {
  file_->sync();
  file_->close();
  rename_to(file_->path(), path_);
  file_.reset();
}

}  // namespace twobw
