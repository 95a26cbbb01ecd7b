#include "text/corpus/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/error.h"

namespace twobw::corpus {
namespace {

class PlainFile : public ByteSource {
 public:
  explicit PlainFile(const std::string& path) : path_(path) {
    file_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file_ < 0) refuse(std::strerror(errno));
    struct stat status {};
    if (fstat(file_, &status) != 0 || S_ISDIR(status.st_mode)) {
      close(file_);
      refuse("it is a folder");
    }
    posix_fadvise(file_, 0, 0, POSIX_FADV_SEQUENTIAL);
  }
  ~PlainFile() override { close(file_); }
  PlainFile(const PlainFile&) = delete;
  PlainFile& operator=(const PlainFile&) = delete;

  std::size_t read(std::span<char> room) override {
    for (;;) {
      const ssize_t count = ::read(file_, room.data(), room.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) refuse(std::strerror(errno));
      position_ += count;
      return static_cast<std::size_t>(count);
    }
  }
  std::int64_t position() const override { return position_; }

  // First bytes, without moving the position.
  std::string beginning() const {
    std::array<char, 4> bytes{};
    const ssize_t count = pread(file_, bytes.data(), bytes.size(), 0);
    return {bytes.data(), static_cast<std::size_t>(count > 0 ? count : 0)};
  }

 private:
  [[noreturn]] void refuse(const char* why) const { fail_input("input '{}' cannot be read: {}", path_, why); }

  std::string path_;
  int file_ = -1;
  std::int64_t position_ = 0;
};

}  // namespace

std::unique_ptr<ByteSource> open_source(const std::string& path) {
  auto file = std::make_unique<PlainFile>(path);
  // Not valid beginnings of UTF-8 text.
  const std::string beginning = file->beginning();
  if (beginning.starts_with("\x1F\x8B")) return unpack_gzip(std::move(file), path);
  if (beginning.starts_with("\x28\xB5\x2F\xFD")) return unpack_zstd(std::move(file), path);
  return file;
}

Window::Window(std::unique_ptr<ByteSource> source) : source_(std::move(source)) {
  if (ahead(3).starts_with("\xEF\xBB\xBF")) skip(3);
}

std::string_view Window::ahead(std::size_t bytes) {
  constexpr std::size_t kLeastRead = std::size_t{1} << 18;
  while (end_ - begin_ < bytes && !at_end_) {
    if (begin_ > 0) {
      std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
      end_ -= std::exchange(begin_, 0);
    }
    const std::size_t wanted = std::max(bytes + kLeastRead, end_ + kLeastRead);
    if (buffer_.size() < wanted) buffer_.resize(wanted);
    const std::size_t count = source_->read({buffer_.data() + end_, buffer_.size() - end_});
    end_ += count;
    at_end_ = count == 0;
  }
  return std::string_view(buffer_).substr(begin_, end_ - begin_);
}

}  // namespace twobw::corpus
