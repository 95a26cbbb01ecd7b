// Variables of the environment as numbers, or an InputError that names them.
#pragma once

#include <string>
#include <utility>

#include "core/launch/world.h"

namespace twobw::launch {

class Variables {
 public:
  // `needed`: what a missing variable's sentence ends with.
  explicit Variables(const Environment& environment,
                     std::string needed = "the launcher of several processes sets both")
      : environment_(environment), needed_(std::move(needed)) {}

  bool has(const char* name) const { return environment_(name).has_value(); }
  // Not set: `otherwise`.
  std::string text(const char* name, const std::string& otherwise = "") const;
  // From `low` to `high`.
  int number(const char* name, int low, int high) const;
  int number(const char* name, int low, int high, int otherwise) const;
  // `because` says what asks for it: "RANK is set".
  void need(const char* name, const std::string& because) const;

 private:
  const Environment& environment_;
  std::string needed_;
};

}  // namespace twobw::launch
