#include "tokenizer/sentencepiece_library.h"

#include <dlfcn.h>

namespace twobw::tokenizer {
namespace {

using Make = SentencepieceLibrary* (*)();

// Stays open: what it made lives as long as the program may.
Make open_module() {
  // Its own symbols first, whatever the program has loaded; the address sanitizer refuses that.
#ifdef __SANITIZE_ADDRESS__
  constexpr int kOwnSymbols = 0;
#else
  constexpr int kOwnSymbols = RTLD_DEEPBIND;
#endif
  void* const module = dlopen("twobw_sentencepiece.so", RTLD_NOW | RTLD_LOCAL | kOwnSymbols);
  return module ? reinterpret_cast<Make>(dlsym(module, "twobw_make_sentencepiece")) : nullptr;
}

}  // namespace

std::unique_ptr<SentencepieceLibrary> make_sentencepiece_library() {
  static const Make make = open_module();
  return std::unique_ptr<SentencepieceLibrary>(make ? make() : nullptr);
}

}  // namespace twobw::tokenizer
