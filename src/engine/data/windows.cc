// Text cut into windows, of which the next token is to be predicted at every place.
#include <algorithm>
#include <numeric>

#include "engine/data/sources.h"

namespace twobw::data {
namespace {

// Each window begins with the last token of the one before, so that every token but the first is a target
// once.
class NextTokenWindows final : public Examples {
 public:
  NextTokenWindows(std::unique_ptr<TokenStream> text, int length, bool documents_apart)
      : text_(std::move(text)), length_(length), documents_apart_(documents_apart) {}

  std::int64_t count() const override { return (text_->tokens() - 1) / length_; }
  BatchFields fields() const override {
    return documents_apart_ ? kText | BatchFields{Field::Positions} : kText;
  }
  bool is_dense() const override { return !documents_apart_; }
  std::string describe() const override {
    return text_->describe() + (documents_apart_ ? ", each document by itself" : "");
  }

  void write(std::int64_t example, std::uint64_t, const BatchRow& row) const override {
    const std::int64_t first = example * length_;
    if (const auto tokens = row[Field::Tokens]; !tokens.empty()) text_->read(first, tokens);
    if (const auto targets = row[Field::Targets]; !targets.empty()) text_->read(first + 1, targets);
    if (documents_apart_) set_apart(first, row[Field::Positions], row[Field::Targets]);
  }

 private:
  // Either may be empty. A document that began before the window begins with it.
  void set_apart(std::int64_t first, std::span<std::int64_t> positions,
                 std::span<std::int64_t> targets) const {
    if (positions.empty() && targets.empty()) return;
    for (std::int64_t begin = 0; begin < length_;) {
      const std::int64_t document_end = text_->document_end(first + begin) - first;
      const std::int64_t end = std::min(document_end, length_);
      if (!positions.empty()) std::iota(positions.begin() + begin, positions.begin() + end, std::int64_t{0});
      if (!targets.empty() && document_end <= length_)
        targets[static_cast<std::size_t>(document_end - 1)] = kIgnored;
      begin = end;
    }
  }

  std::unique_ptr<TokenStream> text_;
  std::int64_t length_;
  bool documents_apart_;
};

}  // namespace

std::unique_ptr<Examples> next_token_windows(std::unique_ptr<TokenStream> text, int length,
                                             bool documents_apart) {
  return std::make_unique<NextTokenWindows>(std::move(text), length, documents_apart);
}

}  // namespace twobw::data
