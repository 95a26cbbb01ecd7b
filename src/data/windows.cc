// Text cut into windows, of which the next token is to be predicted at every place.
#include "data/sources.h"

namespace twobw::data {
namespace {

// Each window begins with the last token of the one before, so that every token but the first is a target
// once.
class NextTokenWindows final : public Examples {
 public:
  NextTokenWindows(std::unique_ptr<TokenStream> text, int length) : text_(std::move(text)), length_(length) {}

  std::int64_t count() const override { return (text_->tokens() - 1) / length_; }
  BatchFields fields() const override { return kText; }
  bool is_dense() const override { return true; }
  std::string describe() const override { return text_->describe(); }

  void write(std::int64_t example, std::uint64_t, const BatchRow& row) const override {
    const std::int64_t first = example * length_;
    if (const auto tokens = row[Field::Tokens]; !tokens.empty()) text_->read(first, tokens);
    if (const auto targets = row[Field::Targets]; !targets.empty()) text_->read(first + 1, targets);
  }

 private:
  std::unique_ptr<TokenStream> text_;
  std::int64_t length_;
};

}  // namespace

std::unique_ptr<Examples> next_token_windows(std::unique_ptr<TokenStream> text, int length) {
  return std::make_unique<NextTokenWindows>(std::move(text), length);
}

}  // namespace twobw::data
