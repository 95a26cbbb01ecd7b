#include "core/base/durable.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "core/base/error.h"

namespace twobw {
namespace {

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
