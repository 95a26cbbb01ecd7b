#include "tests/fuzz/mutate.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace twobw::fuzz {
namespace {

constexpr std::size_t kLongestInput = std::size_t{1} << 16;

// A short length, or sometimes one up to the end.
std::size_t some_length(const std::string& text, std::size_t at, Random& random) {
  const std::size_t left = text.size() - at;
  return std::min(left, 1 + random.below(random.one_in(8) ? left : 12));
}

// Writes a number near a power of two, or all bits, little-endian in 1, 2, 4 or 8 bytes.
void put_integer(std::string& text, std::size_t at, Random& random) {
  static constexpr int kBits[] = {0, 1, 7, 8, 15, 16, 31, 32, 56, 60, 62, 63};
  std::uint64_t number = (std::uint64_t{1} << random.choose(kBits)) - random.below(2);
  if (random.one_in(16)) number = ~std::uint64_t{0};
  if (random.one_in(4)) number += random.below(17) - 8;
  const std::size_t bytes = std::min(text.size() - at, std::size_t{1} << random.below(4));
  std::memcpy(text.data() + at, &number, bytes);
}

void mutate_bytes(std::string& text, Random& random) {
  if (text.empty()) {
    text.push_back(static_cast<char>(random.next()));
    return;
  }
  const std::size_t at = random.below(text.size());
  switch (random.below(9)) {
    case 0:
      text[at] = static_cast<char>(text[at] ^ (1 << random.below(8)));
      break;
    case 1:
      text[at] = static_cast<char>(random.next());
      break;
    case 2:
      text[at] = static_cast<char>(text[at] + static_cast<char>(random.below(5)) - 2);
      break;
    case 3:
      put_integer(text, at, random);
      break;
    case 4:
      text.erase(at, some_length(text, at, random));
      break;
    case 5: {  // copies a part to another place
      const std::string part = text.substr(at, some_length(text, at, random));
      text.insert(random.below(text.size() + 1), part);
      break;
    }
    case 6: {  // copies a part over another
      const std::string part = text.substr(at, some_length(text, at, random));
      text.replace(random.below(text.size()), part.size(), part);
      break;
    }
    case 7: {
      std::string part(1 + random.below(8), '\0');
      for (char& byte : part) byte = static_cast<char>(random.next());
      text.insert(at, part);
      break;
    }
    default:
      if (random.one_in(4)) text.resize(at);
  }
}

}  // namespace

std::string mutate(const std::vector<std::string>& seeds, Shape shape, Random& random) {
  std::string text = random.choose(seeds);
  if (random.one_in(8)) {
    const std::string& other = random.choose(seeds);
    text.resize(random.below(text.size() + 1));
    text += other.substr(random.below(other.size() + 1));
  }
  do {
    const bool plain = shape == Shape::Bytes || random.one_in(3);
    if (plain) {
      mutate_bytes(text, random);
    } else if (shape == Shape::Json) {
      mutate_json(text, random);
    } else {
      mutate_lines(text, random);
    }
  } while (random.one_in(2) && text.size() < kLongestInput);
  return text;
}

}  // namespace twobw::fuzz
