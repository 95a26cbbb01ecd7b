#include "core/base/line_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "core/base/error.h"
#include "core/base/output_file.h"

namespace twobw {
namespace {

bool shorten(int file, std::size_t bytes) {
  struct stat status {};
  return fstat(file, &status) == 0 && ftruncate(file, status.st_size - static_cast<off_t>(bytes)) == 0;
}

// Number of bytes after the last newline.
std::size_t torn_bytes(int file, off_t size) {
  std::array<char, 4096> block{};
  std::size_t torn = 0;
  while (static_cast<off_t>(torn) < size) {
    const off_t end = size - static_cast<off_t>(torn);
    const auto length = static_cast<std::size_t>(std::min(end, static_cast<off_t>(block.size())));
    if (pread(file, block.data(), length, end - static_cast<off_t>(length)) != static_cast<ssize_t>(length))
      return 0;  // not readable: left as it is
    const std::size_t newline = std::string_view(block.data(), length).rfind('\n');
    if (newline != std::string_view::npos) return torn + length - newline - 1;
    torn += length;
  }
  return torn;
}

}  // namespace

LineFile::LineFile(std::string path, bool appends, std::size_t most_kept)
    : path_(std::move(path)), most_kept_(most_kept) {
  constexpr mode_t kMode = 0666;  // less the user's mask
  const int begin = appends ? 0 : O_TRUNC;
  file_ = open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | begin, kMode);
  struct stat status {};
  if (file_ < 0 || fstat(file_, &status) != 0)
    fail_input("'{}' cannot be written: {}", path_, std::strerror(errno));
  const std::size_t torn = torn_bytes(file_, status.st_size);
  if (torn > 0) shorten(file_, torn);
}

LineFile::~LineFile() {
  close(file_);
}

void LineFile::add(std::string_view line) {
  if (kept_.size() >= most_kept_) flush();
  if (kept_.size() >= most_kept_) {
    ++lost_;
    return;
  }
  kept_.append(line).append("\n");
  flush();
}

std::string LineFile::take_problem() {
  if (reason_.empty() || std::exchange(has_said_, true)) return {};
  return fmt::format("'{}' cannot be written: {}", path_, reason_);
}

std::string LineFile::finish() {
  flush();
  if (fsync(file_) != 0 && errno != EINVAL) reason_ = std::strerror(errno);  // EINVAL: a device, say
  lost_ += std::ranges::count(kept_, '\n');
  kept_.clear();
  const std::int64_t lost = std::exchange(lost_, 0);
  if (lost == 0) return {};
  return fmt::format("{} line{} of '{}' {} lost: {}", lost, lost == 1 ? "" : "s", path_,
                     lost == 1 ? "is" : "are", reason_);
}

void LineFile::flush() {
  const std::size_t written = write_bytes(file_, std::as_bytes(std::span(kept_)));
  if (written == kept_.size()) return kept_.clear();
  reason_ = std::strerror(errno);
  kept_.erase(0, end_at_a_line(written));
}

// Cuts off the part of a line that was written last, and returns the bytes that are still in the file. If it
// cannot be cut off, the rest of the line is written next.
std::size_t LineFile::end_at_a_line(std::size_t written) {
  const std::size_t newline = std::string_view(kept_).substr(0, written).rfind('\n');
  const std::size_t whole = newline == std::string_view::npos ? 0 : newline + 1;
  return whole == written || shorten(file_, written - whole) ? whole : written;
}

}  // namespace twobw
