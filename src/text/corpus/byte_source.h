// Bytes of an input file, decompressed, and a window that moves over them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace twobw::corpus {

class ByteSource {
 public:
  virtual ~ByteSource() = default;

  // Reads up to the size of `room`, which is not empty, and returns the number of bytes; 0: end of the file.
  // Throws InputError.
  virtual std::size_t read(std::span<char> room) = 0;

  // Bytes read from the file, before decompression.
  virtual std::int64_t position() const = 0;
};

// Recognizes gzip and zstd by their first bytes, not by the name. Throws InputError.
std::unique_ptr<ByteSource> open_source(const std::string& path);

// Decompressors of open_source. InputError in builds without the library.
std::unique_ptr<ByteSource> unpack_gzip(std::unique_ptr<ByteSource> packed, const std::string& path);
std::unique_ptr<ByteSource> unpack_zstd(std::unique_ptr<ByteSource> packed, const std::string& path);

// View of the next bytes of a source, which holds no more than requested in memory.
class Window {
 public:
  // Skips a byte order mark.
  explicit Window(std::unique_ptr<ByteSource> source);

  // Returns at least the next `bytes` bytes, or all that are left. Valid until the next call.
  std::string_view ahead(std::size_t bytes);
  void skip(std::size_t bytes) { begin_ += bytes; }

  std::int64_t position() const { return source_->position(); }

 private:
  std::unique_ptr<ByteSource> source_;
  std::string buffer_;
  std::size_t begin_ = 0, end_ = 0;
  bool at_end_ = false;
};

}  // namespace twobw::corpus
