#include "core/base/error.h"
#include "engine/data/stream.h"
#include "text/corpus/indexed_file.h"
#include "text/corpus/summary.h"

namespace twobw::data {
namespace {

class TokenFile final : public TokenStream {
 public:
  explicit TokenFile(const std::string& path) : file_(path) {}

  const corpus::IndexedFile& file() const { return file_; }

  std::int64_t tokens() const override { return file_.tokens(); }
  void read(std::int64_t from, std::span<std::int64_t> to) const override { file_.read_stream(from, to); }
  bool has_documents() const override { return true; }
  std::int64_t document_end(std::int64_t token) const override { return file_.document_end(token); }
  std::string describe() const override {
    return fmt::format("{} ({} tokens in {} documents)", file_.prefix(), file_.tokens(), file_.documents());
  }

 private:
  corpus::IndexedFile file_;
};

std::unique_ptr<TokenFile> map_token_file(const std::string& key, const std::string& path) {
  try {
    return std::make_unique<TokenFile>(path);
  } catch (const InputError& error) {
    fail_input("{} is '{}': {}", key, path, error.what());
  }
}

// Reads every token, unless their type alone says that they fit.
void check_ids(const std::string& key, const corpus::IndexedFile& file, int vocab) {
  if (const auto possible = corpus::possible_ids(file.type());
      possible.least == 0 && possible.greatest < vocab)
    return;
  const corpus::IdRange ids = corpus::id_range(file);
  if (ids.least < 0) fail_input("{} '{}' holds token {}; none may be below 0", key, file.prefix(), ids.least);
  if (ids.greatest >= vocab) {
    fail_input("model.vocab is {}, but {} '{}' holds token {}; it must be at least {}", vocab, key,
               file.prefix(), ids.greatest, ids.greatest + 1);
  }
}

}  // namespace

std::unique_ptr<TokenStream> open_token_file(const std::string& key, const std::string& path,
                                             const StreamDemand& demand) {
  std::unique_ptr<TokenFile> stream = map_token_file(key, path);
  if (stream->tokens() < demand.window) {
    fail_input("{} is '{}' with {} tokens; one window of model.context = {} needs {}", key, path,
               stream->tokens(), demand.context, demand.window);
  }
  check_ids(key, stream->file(), demand.vocab);
  return stream;
}

}  // namespace twobw::data
