#include "corpus/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace twobw::corpus {

MappedFile::MappedFile(std::string_view what, const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) fail_input("{} '{}' cannot be read: {}", what, path, std::strerror(errno));
  struct stat status {};
  std::string why;
  if (fstat(file, &status) != 0) {
    why = std::strerror(errno);
  } else if (!S_ISREG(status.st_mode)) {
    why = "it is not a regular file";
  } else if (status.st_size > 0) {  // nothing cannot be mapped
    const auto size = static_cast<std::size_t>(status.st_size);
    void* const begin = mmap(nullptr, size, PROT_READ, MAP_SHARED, file, 0);
    if (begin == MAP_FAILED) {
      why = std::strerror(errno);
    } else {
      bytes_ = {static_cast<const std::byte*>(begin), size};
    }
  }
  close(file);
  if (!why.empty()) fail_input("{} '{}' cannot be read: {}", what, path, why);
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace twobw::corpus
