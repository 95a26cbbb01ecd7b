// Values as they lie in memory, for messages between processes of one build (core/base/codec.h replaces it).
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/base/error.h"

namespace twobw {

template <typename Value>
concept Plain = std::is_trivially_copyable_v<Value> && !std::is_pointer_v<Value>;

class ByteWriter {
 public:
  template <Plain Value>
  ByteWriter& add(const Value& value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  template <Plain Value>
  ByteWriter& add(const std::vector<Value>& values) {
    add(static_cast<std::uint64_t>(values.size()));
    bytes_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Value));
    return *this;
  }
  template <Plain Value>
  ByteWriter& add(const std::optional<Value>& value) {
    add(value.has_value());
    return add(value.value_or(Value{}));
  }
  ByteWriter& add(std::string_view text) {
    add(static_cast<std::uint64_t>(text.size()));
    bytes_.append(text);
    return *this;
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// In the order in which they were added. Throws RunError where bytes are missing.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}

  template <Plain Value>
  Value take() {
    Value value;
    std::memcpy(&value, cut(sizeof value).data(), sizeof value);
    return value;
  }
  template <Plain Value>
  std::vector<Value> take_list() {
    const auto count = take<std::uint64_t>();
    if (count > rest_.size() / sizeof(Value)) fail_short();
    std::vector<Value> values(count);
    if (count > 0) std::memcpy(values.data(), cut(count * sizeof(Value)).data(), count * sizeof(Value));
    return values;
  }
  template <Plain Value>
  std::optional<Value> take_optional() {
    const bool has_value = take<bool>();
    const auto value = take<Value>();
    return has_value ? std::optional(value) : std::nullopt;
  }
  std::string take_text() {
    const auto size = take<std::uint64_t>();
    if (size > rest_.size()) fail_short();
    return std::string(cut(size));
  }
  std::string_view rest() const { return rest_; }

 private:
  [[noreturn]] static void fail_short() { fail_run("a message from another process is too short"); }
  std::string_view cut(std::size_t count) {
    if (count > rest_.size()) fail_short();
    const std::string_view front = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return front;
  }

  std::string_view rest_;
};

}  // namespace twobw
