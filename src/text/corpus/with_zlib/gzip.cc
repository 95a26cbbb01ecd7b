#include <zlib.h>

#include <utility>
#include <vector>

#include "core/base/error.h"
#include "text/corpus/byte_source.h"

namespace twobw::corpus {
namespace {

// Concatenated members are one text, as for gunzip.
class Gzip : public ByteSource {
 public:
  Gzip(std::unique_ptr<ByteSource> packed, std::string path)
      : packed_(std::move(packed)), path_(std::move(path)), input_(std::size_t{1} << 16) {
    if (inflateInit2(&stream_, kGzipWindow) != Z_OK) fail_run("zlib does not start");
  }
  ~Gzip() override { inflateEnd(&stream_); }
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;

  std::size_t read(std::span<char> room) override {
    stream_.next_out = reinterpret_cast<Bytef*>(room.data());
    stream_.avail_out = static_cast<uInt>(room.size());
    while (stream_.avail_out == room.size()) {
      if (stream_.avail_in == 0 && !refill()) {
        if (within_member_) fail_input("input '{}' is truncated: it ends within a gzip member", path_);
        return 0;
      }
      step();
    }
    return room.size() - stream_.avail_out;
  }
  std::int64_t position() const override { return packed_->position(); }

 private:
  static constexpr int kGzipWindow = 15 + 16;

  bool refill() {
    stream_.next_in = reinterpret_cast<Bytef*>(input_.data());
    stream_.avail_in = static_cast<uInt>(packed_->read(input_));
    return stream_.avail_in > 0;
  }

  void step() {
    within_member_ = true;
    const int result = inflate(&stream_, Z_NO_FLUSH);
    if (result == Z_STREAM_END) {
      within_member_ = false;
      inflateReset(&stream_);
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      fail_input("input '{}' is damaged: {}", path_, stream_.msg != nullptr ? stream_.msg : "it is not gzip");
    }
  }

  std::unique_ptr<ByteSource> packed_;
  std::string path_;
  std::vector<char> input_;
  z_stream stream_{};
  bool within_member_ = false;
};

}  // namespace

std::unique_ptr<ByteSource> unpack_gzip(std::unique_ptr<ByteSource> packed, const std::string& path) {
  return std::make_unique<Gzip>(std::move(packed), path);
}

}  // namespace twobw::corpus
