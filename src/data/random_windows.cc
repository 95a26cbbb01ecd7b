#include "base/random.h"
#include "data/sources.h"

namespace twobw::data {
namespace {

class RandomWindows final : public Source {
 public:
  explicit RandomWindows(std::unique_ptr<TokenStream> text) : text_(std::move(text)) {}

  Batch random(const Draw& draw, int b, int length, BatchFields fields) const override {
    const auto starts = static_cast<std::uint64_t>(text_->tokens() - length);
    return gather(b, length, fields,
                  [&](int row) { return static_cast<std::int64_t>(random_key(draw.key, row) % starts); });
  }

  Batch sequential(std::int64_t index, int b, int length, BatchFields fields) const override {
    const std::int64_t windows = (text_->tokens() - 1) / length;
    return gather(b, length, fields, [&](int row) { return (index * b + row) % windows * length; });
  }

  std::string describe() const override { return text_->describe(); }

 private:
  template <typename StartOf>
  Batch gather(int b, int length, BatchFields fields, StartOf start_of) const {
    return windows(b, length, fields, [&](int row, std::int64_t* to, int offset) {
      text_->read(start_of(row) + offset, {to, static_cast<std::size_t>(length)});
    });
  }

  std::unique_ptr<TokenStream> text_;
};

}  // namespace

std::unique_ptr<Source> draw_at_random(std::unique_ptr<TokenStream> text) {
  return std::make_unique<RandomWindows>(std::move(text));
}

}  // namespace twobw::data
