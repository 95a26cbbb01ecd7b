// A file as memory, read-only: pages are read when they are touched and belong to the system's cache.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace twobw::corpus {

class MappedFile {
 public:
  // `what` begins the sentence of the InputError: "token file".
  MappedFile(std::string_view what, const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace twobw::corpus
