// Codec for everything that crosses a process boundary. A struct lists its fields once, for both directions:
//
//   static void fields(auto& self, auto&& visit) { visit(self.name, self.cores); }
//
// Values have their layout in memory, little-endian on every supported machine; texts and lists follow their
// count. Bytes are not trusted: invalid ones throw InputError, before memory is allocated for a hostile
// count.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/error.h"

namespace twobw {

static_assert(std::endian::native == std::endian::little);

template <typename Value>
concept HasFields = requires(Value& value) {
  Value::fields(value, [](auto&...) {});
};

// Copied byte for byte.
template <typename Value>
concept PlainValue = std::is_arithmetic_v<Value> || std::is_enum_v<Value> ||
    (std::is_aggregate_v<Value>&& std::is_trivially_copyable_v<Value> && !HasFields<Value>);

class Encoder {
 public:
  template <typename... Values>
  void operator()(const Values&... values) {
    (add(values), ...);
  }
  std::string take() { return std::move(bytes_); }

 private:
  void add_plain(const void* values, std::size_t size) {
    bytes_.append(static_cast<const char*>(values), size);
  }
  void add_count(std::size_t count) { add(static_cast<std::uint32_t>(count)); }

  template <PlainValue Value>
  void add(const Value& value) {
    add_plain(&value, sizeof value);
  }
  template <HasFields Value>
  void add(const Value& value) {
    Value::fields(value, *this);
  }
  void add(std::string_view text) {
    add_count(text.size());
    bytes_ += text;
  }
  template <typename Value>
  void add(const std::optional<Value>& value) {
    add(value.has_value());
    if (value) add(*value);
  }
  template <typename First, typename Second>
  void add(const std::pair<First, Second>& pair) {
    (*this)(pair.first, pair.second);
  }
  template <typename Value>
  void add(const std::vector<Value>& values) {
    add_count(values.size());
    if constexpr (PlainValue<Value>) {
      add_plain(values.data(), values.size() * sizeof(Value));
    } else {
      for (const Value& value : values) add(value);
    }
  }

  std::string bytes_;
};

class Decoder {
 public:
  explicit Decoder(std::string_view bytes) : rest_(bytes) {}

  template <typename... Values>
  void operator()(Values&... values) {
    (read(values), ...);
  }
  template <typename Value>
  Value take() {
    Value value{};
    read(value);
    return value;
  }
  // Bytes without a count before them.
  std::string_view take_bytes(std::size_t count) {
    if (count > rest_.size()) fail_input("a message from another process ends too early");
    const std::string_view front = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return front;
  }
  std::string_view rest() const { return rest_; }
  void finish() const {
    if (!rest_.empty()) fail_input("a message from another process has {} bytes too many", rest_.size());
  }

 private:
  void read_plain(void* values, std::size_t size) {
    const std::string_view bytes = take_bytes(size);
    if (size > 0) std::memcpy(values, bytes.data(), size);
  }
  // At least a byte follows for each.
  std::size_t take_count(std::size_t size = 1) {
    const auto count = take<std::uint32_t>();
    if (count > rest_.size() / size) fail_input("a message from another process ends too early");
    return count;
  }

  template <PlainValue Value>
  void read(Value& value) {
    read_plain(&value, sizeof value);
  }
  template <HasFields Value>
  void read(Value& value) {
    Value::fields(value, *this);
  }
  void read(bool& value) {
    const auto byte = take<std::uint8_t>();
    if (byte > 1) fail_input("a message from another process has a truth value of {}", byte);
    value = byte == 1;
  }
  void read(std::string& text) { text = take_bytes(take_count()); }
  template <typename Value>
  void read(std::optional<Value>& value) {
    value.reset();
    if (take<bool>()) value = take<Value>();
  }
  template <typename First, typename Second>
  void read(std::pair<First, Second>& pair) {
    (*this)(pair.first, pair.second);
  }
  template <typename Value>
  void read(std::vector<Value>& values) {
    values.clear();
    if constexpr (PlainValue<Value>) {
      values.resize(take_count(sizeof(Value)));
      read_plain(values.data(), values.size() * sizeof(Value));
    } else {
      for (std::size_t left = take_count(); left > 0; --left) values.push_back(take<Value>());
    }
  }

  std::string_view rest_;
};

template <typename... Values>
std::string to_bytes(const Values&... values) {
  Encoder encoder;
  encoder(values...);
  return encoder.take();
}

// The value, or a tuple of several. Throws InputError unless the bytes hold them and nothing else.
template <typename... Values>
auto from_bytes(std::string_view bytes) {
  Decoder decoder(bytes);
  std::tuple<Values...> values{decoder.take<Values>()...};
  decoder.finish();
  if constexpr (sizeof...(Values) == 1) {
    return std::get<0>(std::move(values));
  } else {
    return values;
  }
}

}  // namespace twobw
