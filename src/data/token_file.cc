#include "base/error.h"
#include "corpus/id_range.h"
#include "corpus/indexed_file.h"
#include "data/epochs.h"
#include "data/sources.h"

namespace twobw::data {
namespace {

class TokenFile final : public Source {
 public:
  explicit TokenFile(const std::string& path) : file_(path) {}

  const corpus::IndexedFile& file() const { return file_; }

  Batch random(const Draw& draw, int b, int length, BatchFields fields) const override {
    return gather(b, length, fields,
                  [&](int row) { return window_of(draw.seed, windows_of(length), draw.first + row); });
  }

  Batch sequential(std::int64_t index, int b, int length, BatchFields fields) const override {
    return gather(b, length, fields, [&](int row) { return (index * b + row) % windows_of(length); });
  }

  std::string describe() const override {
    return fmt::format("{} ({} tokens in {} documents)", file_.prefix(), file_.tokens(), file_.documents());
  }

 private:
  std::int64_t windows_of(int length) const { return (file_.tokens() - 1) / length; }

  template <typename WindowAt>
  Batch gather(int b, int length, BatchFields fields, WindowAt window_at) const {
    return windows(b, length, fields, [&](int row, std::int64_t* to, int offset) {
      file_.read_stream(window_at(row) * length + offset, {to, static_cast<std::size_t>(length)});
    });
  }

  corpus::IndexedFile file_;
};

std::unique_ptr<TokenFile> open(const std::string& key, const std::string& path) {
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

std::unique_ptr<Source> open_token_file(const std::string& key, const std::string& path, int vocab,
                                        int length) {
  std::unique_ptr<TokenFile> source = open(key, path);
  const corpus::IndexedFile& file = source->file();
  if (file.tokens() <= length) {
    fail_input("{} is '{}' with {} tokens; one window of model.context = {} needs {}", key, path,
               file.tokens(), length, length + 1);
  }
  check_ids(key, file, vocab);
  return source;
}

}  // namespace twobw::data
