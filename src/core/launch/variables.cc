#include "core/launch/variables.h"

#include <charconv>
#include <cstdlib>

#include "core/base/error.h"

namespace twobw::launch {

Environment process_environment() {
  return [](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    return value ? std::optional<std::string>(value) : std::nullopt;
  };
}

std::string Variables::text(const char* name, const std::string& otherwise) const {
  return environment_(name).value_or(otherwise);
}

int Variables::number(const char* name, int low, int high) const {
  const std::string value = text(name);
  int number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  const bool whole = error == std::errc() && end == value.data() + value.size();
  if (!whole || number < low || number > high)
    fail_input("the environment has {}='{}'; it must be a whole number from {} to {}", name, value, low,
               high);
  return number;
}

int Variables::number(const char* name, int low, int high, int otherwise) const {
  return has(name) ? number(name, low, high) : otherwise;
}

void Variables::need(const char* name, const std::string& because) const {
  if (!has(name)) fail_input("{}, but {} is not; {}", because, name, needed_);
}

}  // namespace twobw::launch
