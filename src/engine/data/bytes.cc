#include <algorithm>

#include "core/base/error.h"
#include "core/base/mapped_file.h"
#include "engine/data/stream.h"

namespace twobw::data {
namespace {

class ByteStream final : public TokenStream {
 public:
  ByteStream(const std::string& key, const std::string& path, const StreamDemand& demand)
      : path_(path), file_(path) {
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

  std::string describe() const override { return fmt::format("{} ({} bytes)", path_, tokens()); }

 private:
  std::span<const unsigned char> bytes() const {
    return {reinterpret_cast<const unsigned char*>(file_.bytes().data()), file_.bytes().size()};
  }

  std::string path_;
  MappedFile file_;
};

}  // namespace

std::unique_ptr<TokenStream> open_bytes(const std::string& key, const std::string& path,
                                        const StreamDemand& demand) {
  return std::make_unique<ByteStream>(key, path, demand);
}

}  // namespace twobw::data
