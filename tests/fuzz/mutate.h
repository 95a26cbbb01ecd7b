// Mutations of inputs, the same for a seed on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/random.h"
#include "tests/fuzz/target.h"

namespace twobw::fuzz {

class Random {
 public:
  explicit Random(std::uint64_t key) : key_(key) {}

  std::uint64_t next() { return random_key(key_, ++drawn_); }
  std::size_t below(std::size_t limit) { return limit == 0 ? 0 : next() % limit; }
  bool one_in(std::size_t limit) { return below(limit) == 0; }
  template <typename List>
  const auto& choose(const List& list) {
    return list[below(std::size(list))];
  }

 private:
  std::uint64_t key_, drawn_ = 0;
};

// A seed after one or a few changes: bits, bytes, numbers at the limits, missing, repeated and moved parts,
// the end of another seed; in JSON and lines also hostile values. `seeds` is not empty.
std::string mutate(const std::vector<std::string>& seeds, Shape shape, Random& random);

// Changes one token of JSON, or a few in a row.
void mutate_json(std::string& text, Random& random);

// Changes text in lines, such as YAML.
void mutate_lines(std::string& text, Random& random);

}  // namespace twobw::fuzz
