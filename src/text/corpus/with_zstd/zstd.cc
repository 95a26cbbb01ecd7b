#include <zstd.h>

#include <utility>
#include <vector>

#include "core/base/error.h"
#include "text/corpus/byte_source.h"

namespace twobw::corpus {
namespace {

// Concatenated frames are one text. The library rejects windows above 128 MiB.
class Zstd : public ByteSource {
 public:
  Zstd(std::unique_ptr<ByteSource> packed, std::string path)
      : packed_(std::move(packed)),
        path_(std::move(path)),
        input_(ZSTD_DStreamInSize()),
        stream_(ZSTD_createDStream(), ZSTD_freeDStream) {}

  std::size_t read(std::span<char> room) override {
    ZSTD_outBuffer out{room.data(), room.size(), 0};
    while (out.pos == 0) {
      if (in_.pos == in_.size && !full_ && !refill()) {
        if (within_frame_) fail_input("input '{}' is truncated: it ends within a zstd frame", path_);
        return 0;
      }
      const std::size_t left = ZSTD_decompressStream(stream_.get(), &out, &in_);
      if (ZSTD_isError(left) != 0) fail_input("input '{}' is damaged: {}", path_, ZSTD_getErrorName(left));
      within_frame_ = left != 0;
      full_ = out.pos == out.size && within_frame_;  // the library may hold more
    }
    return out.pos;
  }
  std::int64_t position() const override { return packed_->position(); }

 private:
  bool refill() {
    in_ = {input_.data(), packed_->read(input_), 0};
    return in_.size > 0;
  }

  std::unique_ptr<ByteSource> packed_;
  std::string path_;
  std::vector<char> input_;
  std::unique_ptr<ZSTD_DStream, std::size_t (*)(ZSTD_DStream*)> stream_;
  ZSTD_inBuffer in_{nullptr, 0, 0};
  bool within_frame_ = false, full_ = false;
};

}  // namespace

std::unique_ptr<ByteSource> unpack_zstd(std::unique_ptr<ByteSource> packed, const std::string& path) {
  return std::make_unique<Zstd>(std::move(packed), path);
}

}  // namespace twobw::corpus
