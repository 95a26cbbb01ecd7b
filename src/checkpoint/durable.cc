#include "checkpoint/durable.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "base/error.h"

namespace twobw::checkpoint {
namespace {

void sync(const std::string& path, int flags) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags);
  // EINVAL: the file system has nothing to sync there.
  const bool synced = file >= 0 && (::fsync(file) == 0 || errno == EINVAL);
  const int reason = errno;
  if (file >= 0) ::close(file);
  if (!synced) fail_run("cannot sync '{}': {}", path, std::strerror(reason));
}

std::string parent_of(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

}  // namespace

void sync_file(const std::string& path) {
  sync(path, 0);
}

void sync_folder(const std::string& path) {
  sync(path, O_DIRECTORY);
}

void publish(const std::string& temporary, const std::string& path) {
  if (std::rename(temporary.c_str(), path.c_str()) != 0)
    fail_run("cannot rename '{}' to '{}': {}", temporary, path, std::strerror(errno));
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
  const std::string temporary = path + ".partial";
  {
    std::ofstream file(temporary, std::ios::binary);
    file << text;
    file.close();
    if (!file) fail_run("cannot write '{}'", temporary);
  }
  sync_file(temporary);
  publish(temporary, path);
}

}  // namespace twobw::checkpoint
