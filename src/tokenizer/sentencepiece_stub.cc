// In place of sentencepiece.cc where the library is missing.
#include "tokenizer/sentencepiece.h"

#include "base/error.h"

namespace twobw::tokenizer {

std::unique_ptr<Tokenizer> load_sentencepiece(const std::string& path) {
  fail_input(
      "tokenizer '{}' needs sentencepiece, which this build lacks: install libsentencepiece-dev and build "
      "again",
      path);
}

}  // namespace twobw::tokenizer
