#include "text/tokenizer/sentencepiece_library.h"

#include <dlfcn.h>

#include <filesystem>

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
  // Beside the program, or above it where tests lie in a folder of their own.
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  for (const std::filesystem::path& place : {folder, folder.parent_path()}) {
    void* const module =
        dlopen((place / "twobw_sentencepiece.so").c_str(), RTLD_NOW | RTLD_LOCAL | kOwnSymbols);
    if (module) return reinterpret_cast<Make>(dlsym(module, "twobw_make_sentencepiece"));
  }
  return nullptr;
}

}  // namespace

std::unique_ptr<SentencepieceLibrary> make_sentencepiece_library() {
  static const Make make = open_module();
  return std::unique_ptr<SentencepieceLibrary>(make ? make() : nullptr);
}

}  // namespace twobw::tokenizer
