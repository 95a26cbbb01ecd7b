// A file that grows at its end, under a temporary name until it is whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace twobw::corpus {

// Every function throws RunError where the system refuses (a full disk, say), the constructor InputError.
class OutputFile {
 public:
  // Writes at `path` after the first `keep` bytes of what lies there; the rest of it is cut off. Another
  // process that has the same file open this way is refused.
  OutputFile(std::string path, std::int64_t keep);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void append(std::span<const std::byte> bytes);
  std::int64_t size() const { return written_ + static_cast<std::int64_t>(buffer_.size()); }
  const std::string& path() const { return path_; }

  // Cuts off what follows the first `size` bytes.
  void truncate(std::int64_t size);

  // Everything so far is on the disk when it returns.
  void sync();

 private:
  void flush();

  std::string path_;
  int file_ = -1;
  std::int64_t written_ = 0;
  std::vector<std::byte> buffer_;
};

// Renames a file that is on the disk, and has the disk remember it.
void publish(const std::string& from, const std::string& to);

// Replaces a small file at once: a reader sees the old text or the new.
void replace_text(const std::string& path, const std::string& text);

}  // namespace twobw::corpus
