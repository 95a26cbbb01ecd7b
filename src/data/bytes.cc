#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>

#include "base/error.h"
#include "base/random.h"
#include "data/sources.h"

namespace twobw::data {
namespace {

// A file mapped read-only into memory.
class MappedFile {
 public:
  MappedFile(const std::string& key, const std::string& path) {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat info {};
    if (descriptor < 0 || ::fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) {
      const std::string reason = descriptor < 0 ? std::strerror(errno) : "not a regular file";
      if (descriptor >= 0) ::close(descriptor);
      fail_input("{} is '{}', which cannot be read ({}); give a text file, or synthetic", key, path, reason);
    }
    size_ = static_cast<std::size_t>(info.st_size);
    if (size_ > 0) memory_ = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
    ::close(descriptor);
    if (memory_ == MAP_FAILED) fail_input("{} is '{}', which cannot be mapped into memory", key, path);
  }
  ~MappedFile() {
    if (memory_) ::munmap(memory_, size_);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const unsigned char> bytes() const { return {static_cast<const unsigned char*>(memory_), size_}; }

 private:
  void* memory_ = nullptr;
  std::size_t size_ = 0;
};

class ByteSource final : public Source {
 public:
  ByteSource(const std::string& key, const std::string& path, int vocab, int length)
      : path_(path), file_(key, path) {
    const auto bytes = file_.bytes();
    if (bytes.size() < static_cast<std::size_t>(length) + 1) {
      fail_input("{} is '{}' with {} bytes; one window of model.context = {} needs {}", key, path,
                 bytes.size(), length, length + 1);
    }
    const int highest = *std::max_element(bytes.begin(), bytes.end());
    if (highest >= vocab) {
      fail_input("model.vocab is {}, but {} '{}' holds token {}; it must be at least {}", vocab, key, path,
                 highest, highest + 1);
    }
  }

  Batch random(std::uint64_t key, int b, int length, BatchFields fields) const override {
    const std::uint64_t starts = file_.bytes().size() - length;
    return gather(b, length, fields, [&](int row) { return random_key(key, row) % starts; });
  }

  Batch sequential(std::int64_t index, int b, int length, BatchFields fields) const override {
    const std::int64_t windows = (file_.bytes().size() - 1) / length;
    return gather(b, length, fields, [&](int row) { return (index * b + row) % windows * length; });
  }

  std::string describe() const override { return fmt::format("{} ({} bytes)", path_, file_.bytes().size()); }

 private:
  template <typename StartOf>
  Batch gather(int b, int length, BatchFields fields, StartOf start_of) const {
    return windows(b, length, fields, [&](int row, std::int64_t* to, int offset) {
      const unsigned char* window = file_.bytes().data() + start_of(row) + offset;
      std::copy(window, window + length, to);
    });
  }

  std::string path_;
  MappedFile file_;
};

}  // namespace

std::unique_ptr<Source> open_bytes(const std::string& key, const std::string& path, int vocab, int length) {
  return std::make_unique<ByteSource>(key, path, vocab, length);
}

std::unique_ptr<Source> open_source(const std::string& key, const std::string& path, int vocab, int length) {
  return path == "synthetic" ? make_synthetic(vocab) : open_bytes(key, path, vocab, length);
}

}  // namespace twobw::data
