// The bytes of an input file, unpacked where it is packed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace twobw::corpus {

class ByteSource {
 public:
  virtual ~ByteSource() = default;

  // Fills the beginning of `room`, which is not empty, and says how much of it; 0: the end. Throws
  // InputError.
  virtual std::size_t read(std::span<char> room) = 0;

  // How much of the file has been read, packed as it is.
  virtual std::int64_t position() const = 0;
};

// gzip and zstd are known by their first bytes, whatever the file's name. Throws InputError.
std::unique_ptr<ByteSource> open_source(const std::string& path);

// What open_source chooses from. Where its library is missing, opening one throws InputError.
std::unique_ptr<ByteSource> unpack_gzip(std::unique_ptr<ByteSource> packed, const std::string& path);
std::unique_ptr<ByteSource> unpack_zstd(std::unique_ptr<ByteSource> packed, const std::string& path);

}  // namespace twobw::corpus
