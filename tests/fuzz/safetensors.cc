// The header of a safetensors file.
#include "engine/checkpoint/formats/safetensors_header.h"
#include "tests/fuzz/target.h"

namespace twobw::fuzz {

void read_safetensors(std::string_view input) {
  for (const auto& [name, tensor] : checkpoint::read_header(bytes_of(input), "x.safetensors")) {
    if (tensor.begin > tensor.end || tensor.end > input.size()) fail("a tensor lies outside the file");
  }
}

}  // namespace twobw::fuzz
