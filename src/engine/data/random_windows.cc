#include "core/base/random.h"
#include "engine/data/sources.h"

namespace twobw::data {
namespace {

class RandomWindows final : public Source {
 public:
  RandomWindows(std::unique_ptr<TokenStream> text, int length) : text_(std::move(text)), length_(length) {}

  Batch random(const Draw& draw, int b, int length, BatchFields fields) const override {
    const auto starts = static_cast<std::uint64_t>(text_->tokens() - length);
    return gather(b, length, fields,
                  [&](int row) { return static_cast<std::int64_t>(random_key(draw.key, row) % starts); });
  }

  Batch sequential(std::int64_t index, int b, int length, BatchFields fields) const override {
    const std::int64_t windows = windows_of(length);
    return gather(b, length, fields, [&](int row) { return (index * b + row) % windows * length; });
  }

  std::int64_t count() const override { return windows_of(length_); }

  std::string describe() const override { return text_->describe(); }

 private:
  std::int64_t windows_of(std::int64_t length) const { return (text_->tokens() - 1) / length; }

  template <typename StartOf>
  Batch gather(int b, int length, BatchFields fields, StartOf start_of) const {
    return windows(b, length, fields, [&](int row, std::int64_t* to, int offset) {
      text_->read(start_of(row) + offset, {to, static_cast<std::size_t>(length)});
    });
  }

  std::unique_ptr<TokenStream> text_;
  std::int64_t length_;
};

}  // namespace

std::unique_ptr<Source> draw_at_random(std::unique_ptr<TokenStream> text, int length) {
  return std::make_unique<RandomWindows>(std::move(text), length);
}

}  // namespace twobw::data
