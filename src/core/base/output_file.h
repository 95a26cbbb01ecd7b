// A file written from its beginning or continued at its end, every error of the system reported.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace twobw {

// write(2) until all is written or the system refuses, with the reason in errno. Returns the bytes written.
std::size_t write_bytes(int file, std::span<const std::byte> bytes);

// "'PATH' cannot be written: REASON", as RunError; the reason is that of errno.
[[noreturn]] void fail_write(const std::string& path);

// Buffered. Every function throws RunError when the system refuses (a full disk, say).
class OutputFile {
 public:
  // Replaces the contents of the file at `path`.
  explicit OutputFile(std::string path);
  // Continues the file at `path` after its first `keep` bytes; all others are cut off. Throws InputError,
  // also if another process has opened the file in this way.
  OutputFile(std::string path, std::int64_t keep);
  ~OutputFile();  // without flush
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void append(std::span<const std::byte> bytes);
  void append(std::string_view text) { append(std::as_bytes(std::span(text))); }
  std::int64_t size() const { return written_ + static_cast<std::int64_t>(buffer_.size()); }
  const std::string& path() const { return path_; }

  // Cuts off what follows the first `size` bytes.
  void truncate(std::int64_t size);
  // Everything so far is on the disk when it returns.
  void sync();
  // Everything is written and the file closed; nothing may follow.
  void close();

 private:
  void flush();

  std::string path_;
  int file_ = -1;
  std::int64_t written_ = 0;
  std::vector<std::byte> buffer_;
};

}  // namespace twobw
