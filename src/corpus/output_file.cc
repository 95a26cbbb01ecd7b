#include "corpus/output_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/error.h"

namespace twobw::corpus {
namespace {

constexpr std::size_t kBuffer = std::size_t{1} << 20;

[[noreturn]] void fail_write(const std::string& path) {
  fail_run("'{}' cannot be written: {}", path, std::strerror(errno));
}

}  // namespace

OutputFile::OutputFile(std::string path, std::int64_t keep) : path_(std::move(path)), written_(keep) {
  const auto refuse = [this](const std::string& why) {
    if (file_ >= 0) close(file_);
    fail_input("'{}' cannot be written: {}", path_, why);
  };
  file_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
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
  close(file_);
}

void OutputFile::append(std::span<const std::byte> bytes) {
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  if (buffer_.size() >= kBuffer) flush();
}

void OutputFile::flush() {
  std::span<const std::byte> left = buffer_;
  while (!left.empty()) {
    const ssize_t count = write(file_, left.data(), left.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_write(path_);
    left = left.subspan(static_cast<std::size_t>(count));
  }
  written_ += static_cast<std::int64_t>(buffer_.size());
  buffer_.clear();
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

void publish(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) fail_write(to);
  const std::string folder = std::filesystem::path(to).parent_path().string();
  const int directory = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) fail_write(to);
  fsync(directory);  // not every file system can
  close(directory);
}

void replace_text(const std::string& path, const std::string& text) {
  const std::string partial = path + ".new";
  {
    OutputFile file(partial, 0);
    file.append(std::as_bytes(std::span(text)));
    file.sync();
  }
  publish(partial, path);
}

}  // namespace twobw::corpus
