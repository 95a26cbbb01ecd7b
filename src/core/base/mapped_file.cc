#include "core/base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace twobw {

MappedFile::MappedFile(const std::string& path) {
  // A pipe would wait for its writer.
  const int file = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  struct stat status {};
  if (file < 0 || fstat(file, &status) != 0) {
    problem_ = std::strerror(errno);
  } else if (!S_ISREG(status.st_mode)) {
    problem_ = "not a regular file";
  } else if (status.st_size > 0) {  // nothing cannot be mapped
    const auto size = static_cast<std::size_t>(status.st_size);
    void* const begin = mmap(nullptr, size, PROT_READ, MAP_SHARED, file, 0);
    if (begin == MAP_FAILED) {
      problem_ = std::strerror(errno);
    } else {
      bytes_ = {static_cast<const std::byte*>(begin), size};
    }
  }
  if (file >= 0) close(file);
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace twobw
