#include <algorithm>
#include <span>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/random.h"
#include "data/sources.h"

namespace twobw::data {
namespace {

class ByteSource final : public Source {
 public:
  ByteSource(const std::string& key, const std::string& path, int vocab, int length)
      : path_(path), file_(path) {
    if (!file_.problem().empty()) {
      fail_input("{} is '{}', which cannot be read ({}); give a text file, token files, or synthetic", key,
                 path, file_.problem());
    }
    const auto bytes = this->bytes();
    if (bytes.size() < static_cast<std::size_t>(length) + 1) {
      fail_input("{} is '{}' with {} bytes; one window of model.context = {} needs {}", key, path,
                 bytes.size(), length, length + 1);
    }
    const int highest = *std::max_element(bytes.begin(), bytes.end());
    if (highest >= vocab) {
      fail_input("model.vocab is {}, but {} '{}' holds token {}; it must be at least {}", vocab, key, path,
                 highest, highest + 1);
    }
  }

  Batch random(const Draw& draw, int b, int length, BatchFields fields) const override {
    const std::uint64_t starts = bytes().size() - length;
    return gather(b, length, fields, [&](int row) { return random_key(draw.key, row) % starts; });
  }

  Batch sequential(std::int64_t index, int b, int length, BatchFields fields) const override {
    const std::int64_t windows = (bytes().size() - 1) / length;
    return gather(b, length, fields, [&](int row) { return (index * b + row) % windows * length; });
  }

  std::string describe() const override { return fmt::format("{} ({} bytes)", path_, bytes().size()); }

 private:
  std::span<const unsigned char> bytes() const {
    return {reinterpret_cast<const unsigned char*>(file_.bytes().data()), file_.bytes().size()};
  }

  template <typename StartOf>
  Batch gather(int b, int length, BatchFields fields, StartOf start_of) const {
    return windows(b, length, fields, [&](int row, std::int64_t* to, int offset) {
      const unsigned char* window = bytes().data() + start_of(row) + offset;
      std::copy(window, window + length, to);
    });
  }

  std::string path_;
  MappedFile file_;
};

}  // namespace

std::unique_ptr<Source> open_bytes(const std::string& key, const std::string& path, int vocab, int length) {
  return std::make_unique<ByteSource>(key, path, vocab, length);
}

}  // namespace twobw::data
