#include "engine/data/stream.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/mapped_file.h"
#include "core/base/text_file.h"
#include "text/corpus/indexed_file.h"
#include "text/corpus/summary.h"

namespace twobw::data {
namespace {

class ByteStream final : public TokenStream {
 public:
  ByteStream(const std::string& key, const std::string& path, const StreamDemand& demand) : file_(path) {
    if (!file_.problem().empty()) {
      fail_input("{} is '{}', which cannot be read ({}); give a text file, token files, or synthetic", key,
                 path, file_.problem());
    }
    if (tokens() < demand.window) {
      fail_input("{} is '{}' with {} bytes; one window of model.context = {} needs {}", key, path, tokens(),
                 demand.context, demand.window);
    }
    const int highest = *std::max_element(bytes().begin(), bytes().end());
    if (highest >= demand.vocab) {
      fail_input("model.vocab is {}, but {} '{}' holds token {}; it must be at least {}", demand.vocab, key,
                 path, highest, highest + 1);
    }
  }

  std::int64_t tokens() const override { return std::ssize(bytes()); }

  void read(std::int64_t from, std::span<std::int64_t> to) const override {
    TWOBW_ASSERT(from >= 0 && std::ssize(to) <= tokens() - from, "{} bytes from {} of {}", to.size(), from,
                 tokens());
    std::ranges::copy(bytes().subspan(static_cast<std::size_t>(from), to.size()), to.begin());
  }

  std::string describe() const override { return fmt::format("({} bytes)", tokens()); }

 private:
  std::span<const unsigned char> bytes() const {
    return {reinterpret_cast<const unsigned char*>(file_.bytes().data()), file_.bytes().size()};
  }

  MappedFile file_;
};

class TokenFile final : public TokenStream {
 public:
  explicit TokenFile(const std::string& path) : file_(path) {}

  const corpus::IndexedFile& file() const { return file_; }

  std::int64_t tokens() const override { return file_.tokens(); }
  void read(std::int64_t from, std::span<std::int64_t> to) const override { file_.read_stream(from, to); }
  bool has_documents() const override { return true; }
  std::int64_t document_end(std::int64_t token) const override { return file_.document_end(token); }
  std::string describe() const override {
    return fmt::format("({} tokens in {} documents)", file_.tokens(), file_.documents());
  }

 private:
  corpus::IndexedFile file_;
};

// Reads every token, unless their type already fits the vocabulary.
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

std::unique_ptr<TokenStream> open_token_file(const std::string& key, const std::string& path,
                                             const StreamDemand& demand) {
  std::unique_ptr<TokenFile> stream;
  try {
    stream = std::make_unique<TokenFile>(path);
  } catch (const InputError& error) {
    fail_input("{} is '{}': {}", key, path, error.what());
  }
  if (stream->tokens() < demand.window) {
    fail_input("{} is '{}' with {} tokens; one window of model.context = {} needs {}", key, path,
               stream->tokens(), demand.context, demand.window);
  }
  check_ids(key, stream->file(), demand.vocab);
  return stream;
}

}  // namespace

std::unique_ptr<TokenStream> open_stream(const std::string& key, const std::string& path,
                                         const StreamDemand& demand) {
  if (path == "synthetic") return make_synthetic_stream(demand.vocab);
  if (corpus::names_token_file(path)) return open_token_file(key, path, demand);
  if (!is_file(path) && is_file(path + "-train.idx")) {
    fail_input("{0} is '{1}', which does not exist; prepare made '{1}-train' and perhaps '{1}-validation'",
               key, path);
  }
  return std::make_unique<ByteStream>(key, path, demand);
}

DocumentWindows::DocumentWindows(const std::vector<std::int64_t>& ends, std::int64_t size) : size_(size) {
  constexpr std::int64_t kLeast = 2;
  std::int64_t begin = 0;
  for (const std::int64_t end : ends) {
    const std::int64_t length = end - begin;
    const std::int64_t windows = length / size + (length % size >= kLeast ? 1 : 0);
    if (windows > 0) documents_.push_back({.begin = begin, .length = length, .last = count() + windows});
    begin = end;
  }
}

DocumentWindows::Window DocumentWindows::window(std::int64_t number) const {
  const auto found = std::ranges::upper_bound(documents_, number, {}, &Document::last);
  const std::int64_t document = found - documents_.begin();
  const std::int64_t offset = (number - first(document)) * size_;
  return {.begin = found->begin + offset,
          .length = std::min(size_, found->length - offset),
          .document = document};
}

}  // namespace twobw::data
