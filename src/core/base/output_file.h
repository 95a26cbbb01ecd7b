// Files: written from the beginning or continued at the end, with every error of the system reported; and
// durable ones, which survive a power failure: contents are synced, then renamed, then the folder is synced.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"

namespace twobw {

// The disk, or the user's share of it, is full: the same write may succeed later.
class NoRoom : public RunError {
 public:
  using RunError::RunError;
};

// write(2) until all is written or the system refuses, with the reason in errno. Returns the bytes written.
std::size_t write_bytes(int file, std::span<const std::byte> bytes);

// "'PATH' cannot be written: REASON", as RunError or NoRoom; the reason is that of errno.
[[noreturn]] void fail_write(const std::string& path);

// Buffered. Every function throws RunError on an error of the system, for instance a full disk.
class OutputFile {
 public:
  // Replaces the contents of the file at `path`.
  explicit OutputFile(std::string path);
  // Continues the file at `path` after its first `keep` bytes and truncates the rest. Throws InputError, also
  // if another process has opened the file in this way.
  OutputFile(std::string path, std::int64_t keep);
  ~OutputFile();  // without flush
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void append(std::span<const std::byte> bytes);
  void append(std::string_view text) { append(std::as_bytes(std::span(text))); }
  std::int64_t size() const { return written_ + static_cast<std::int64_t>(buffer_.size()); }
  const std::string& path() const { return path_; }

  // Truncates the file to its first `size` bytes.
  void truncate(std::int64_t size);
  // Blocks until everything so far is on the disk.
  void sync();
  // Writes everything and closes the file.
  void close();

 private:
  void flush();

  std::string path_;
  int file_ = -1;
  std::int64_t written_ = 0;
  std::vector<std::byte> buffer_;
};

void sync_file(const std::string& path);
void sync_folder(const std::string& path);

// Renames within one folder. An existing folder of that name is an error.
void publish(const std::string& temporary, const std::string& path);

// Renames the folder `temporary` to `path`, replacing an existing one.
void replace_folder(const std::string& temporary, const std::string& path);

// Replaces a small file atomically.
void replace_text(const std::string& path, const std::string& text);

// Replaces a file of any size, which is PATH.partial until replace().
class Replacement {
 public:
  explicit Replacement(const std::string& path);
  ~Replacement();  // removes PATH.partial
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;

  void append(std::span<const std::byte> bytes) { file_->append(bytes); }
  void append(std::string_view text) { file_->append(text); }
  // Synced and renamed; the folder is the caller's to sync.
  void replace();

 private:
  std::string path_;
  std::optional<OutputFile> file_;  // null: renamed
};

}  // namespace twobw
