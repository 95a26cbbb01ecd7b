#include <filesystem>

#include "base/error.h"
#include "corpus/indexed_file.h"
#include "data/sources.h"

namespace twobw::data {
namespace {

bool is_file(const std::string& path) {
  std::error_code unreadable;
  return std::filesystem::is_regular_file(path, unreadable);
}

}  // namespace

bool names_token_file(const std::string& path) {
  const bool whole_name = corpus::token_file_prefix(path) != path;
  return whole_name || (!is_file(path) && is_file(path + ".idx"));
}

std::unique_ptr<Source> open_source(const std::string& key, const std::string& path, int vocab, int length) {
  if (path == "synthetic") return make_synthetic(vocab);
  if (names_token_file(path)) return open_token_file(key, path, vocab, length);
  if (!is_file(path) && is_file(path + "-train.idx")) {
    fail_input("{0} is '{1}', which does not exist; prepare made '{1}-train' and perhaps '{1}-validation'",
               key, path);
  }
  return open_bytes(key, path, vocab, length);
}

}  // namespace twobw::data
