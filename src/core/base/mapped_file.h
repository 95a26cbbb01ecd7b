// A file as memory, read-only: pages are read when they are touched and belong to the system's cache.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace twobw {

class MappedFile {
 public:
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  // Why it cannot be read: "No such file or directory". Empty: it can.
  const std::string& problem() const { return problem_; }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::string problem_;
  std::span<const std::byte> bytes_;
};

}  // namespace twobw
