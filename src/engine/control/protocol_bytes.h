// The bytes of the control protocol: numbers low byte first on every machine, texts after their length. What
// is read is not trusted, for anybody may have sent it (values between processes of one build:
// core/base/bytes.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/error.h"

namespace twobw::control {

class ProtocolWriter {
 public:
  void u8(std::uint8_t value) { bytes_ += static_cast<char>(value); }
  void u32(std::uint32_t value) {
    for (int shift = 0; shift < 32; shift += 8) u8(static_cast<std::uint8_t>(value >> shift));
  }
  void raw(std::string_view text) { bytes_ += text; }
  // With its length before it.
  void text(std::string_view text) {
    u32(static_cast<std::uint32_t>(text.size()));
    raw(text);
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Throws InputError where bytes are missing.
class ProtocolReader {
 public:
  explicit ProtocolReader(std::string_view bytes) : bytes_(bytes) {}

  std::string_view raw(std::size_t count) {
    if (count > bytes_.size()) fail_input("a control message ends too early");
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }
  std::uint8_t u8() { return static_cast<std::uint8_t>(raw(1)[0]); }
  std::uint32_t u32() {
    std::uint32_t value = 0;
    for (int shift = 0; shift < 32; shift += 8) value |= std::uint32_t{u8()} << shift;
    return value;
  }
  std::string_view text() { return raw(u32()); }
  std::size_t left() const { return bytes_.size(); }
  void end() const {
    if (!bytes_.empty()) fail_input("a control message has {} bytes too many", bytes_.size());
  }

 private:
  std::string_view bytes_;
};

}  // namespace twobw::control
