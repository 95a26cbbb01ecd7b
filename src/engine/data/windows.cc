// Windows of text whose targets are the next tokens.
#include <algorithm>
#include <numeric>

#include "core/base/random.h"
#include "engine/data/sources.h"

namespace twobw::data {
namespace {

// Windows overlap by one token, so that every token but the first is a target once.
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
  // Either may be empty. Positions start at 0 in a document that began before the window.
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

class RandomWindows final : public Source {
 public:
  RandomWindows(std::string name, std::unique_ptr<TokenStream> text, int length)
      : name_(std::move(name)), text_(std::move(text)), length_(length) {}

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

  std::string describe() const override { return name_ + " " + text_->describe(); }

 private:
  std::int64_t windows_of(std::int64_t length) const { return (text_->tokens() - 1) / length; }

  template <typename StartOf>
  Batch gather(int b, int length, BatchFields fields, StartOf start_of) const {
    return windows(b, length, fields, [&](int row, std::int64_t* to, int offset) {
      text_->read(start_of(row) + offset, {to, static_cast<std::size_t>(length)});
    });
  }

  std::string name_;
  std::unique_ptr<TokenStream> text_;
  std::int64_t length_;
};

}  // namespace

std::unique_ptr<Examples> next_token_windows(std::unique_ptr<TokenStream> text, int length,
                                             bool documents_apart) {
  return std::make_unique<NextTokenWindows>(std::move(text), length, documents_apart);
}

std::unique_ptr<Source> draw_at_random(std::string name, std::unique_ptr<TokenStream> text, int length) {
  return std::make_unique<RandomWindows>(std::move(name), std::move(text), length);
}

}  // namespace twobw::data
