// Megatron's .idx. The first byte of an input is the size of its .bin.
#include "text/corpus/indexed_file.h"

#include "tests/fuzz/target.h"
#include "text/corpus/summary.h"

namespace twobw::fuzz {

void read_indexed_file(std::string_view input) {
  const std::size_t size = input.empty() ? 0 : static_cast<unsigned char>(input[0]);
  const std::string bin(size, 'x');
  // A copy, so that the address sanitizer knows its end.
  const std::string index(input.substr(input.empty() ? 0 : 1));
  const corpus::IndexedFile file(bytes_of(index), bytes_of(bin), "x");
  corpus::id_range(file, 1);
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(file.tokens()));
  file.read_stream(0, tokens);
  for (std::int64_t i = 0; i < file.documents(); ++i) corpus::document_tokens(file, i, 10);
}

}  // namespace twobw::fuzz
