#include <algorithm>

#include "core/base/error.h"
#include "engine/data/masked_frame.h"
#include "engine/data/sources.h"

namespace twobw::data {
namespace {

using tokenizer::Tokenizer;

// The text is cut into disjoint windows; what is left at its end and fills none is not used.
class MaskedWindows final : public Examples {
 public:
  MaskedWindows(std::unique_ptr<TokenStream> text, int length, int window, MaskedFrame frame)
      : text_(std::move(text)), length_(length), window_(window), frame_(std::move(frame)) {}

  std::int64_t count() const override { return text_->tokens() / window_; }
  BatchFields fields() const override {
    return {Field::Tokens, Field::Targets, Field::TokenTypes, Field::Lengths};
  }
  bool is_dense() const override { return false; }
  std::string describe() const override { return text_->describe() + ", masked"; }

  void write(std::int64_t example, std::uint64_t key, const BatchRow& row) const override {
    std::ranges::fill(row[Field::TokenTypes], 0);
    std::ranges::fill(row[Field::Lengths], length_);
    if (row[Field::Tokens].empty() && row[Field::Targets].empty()) return;
    std::vector<std::int64_t> tokens(frame_.before), targets(static_cast<std::size_t>(length_), kIgnored);
    tokens.resize(frame_.before.size() + static_cast<std::size_t>(window_));
    const auto text = std::span(tokens).subspan(frame_.before.size());
    text_->read(example * window_, text);
    mask_tokens(frame_.masking, key, text, std::span(targets).subspan(frame_.before.size(), text.size()));
    tokens.insert(tokens.end(), frame_.after.begin(), frame_.after.end());
    if (const auto to = row[Field::Tokens]; !to.empty()) std::ranges::copy(tokens, to.begin());
    if (const auto to = row[Field::Targets]; !to.empty()) std::ranges::copy(targets, to.begin());
  }

 private:
  std::unique_ptr<TokenStream> text_;
  std::int64_t length_, window_;  // tokens of a sequence, and of the text in it
  MaskedFrame frame_;
};

// Of bytes the mask is the token after them.
MaskedFrame frame_of_bytes(const Config& config) {
  constexpr int kMask = 256;
  if (config.model.vocab <= kMask) {
    fail_input(
        "model.vocab is {}, but with model.head: masked_lm the mask of bytes is token {}; it must be at "
        "least {}",
        config.model.vocab, kMask, kMask + 1);
  }
  if (config.data.whole_words)
    fail_input("data.whole_words is true, but data.tokenizer is bytes; it must be a WordPiece tokenizer");
  return {.masking = {.probability = config.data.mask_probability, .mask = kMask, .vocab = kMask}};
}

}  // namespace

std::unique_ptr<Examples> open_masked(const std::string& key, const std::string& path, const Config& config,
                                      const Tokenizer& tokenizer) {
  const bool by_tokenizer = config.data.tokenizer != "bytes" || names_token_file(path);
  MaskedFrame frame = by_tokenizer ? masked_frame(config, tokenizer) : frame_of_bytes(config);
  const int context = config.model.context;
  const int window = context - static_cast<int>(frame.before.size() + frame.after.size());
  if (window < 1) {
    fail_input("model.context is {}; with [CLS], [SEP] and a token between them it must be at least 3",
               context);
  }
  // Made-up tokens are some that may be masked.
  const int vocab = path == "synthetic" ? static_cast<int>(frame.masking.vocab) : config.model.vocab;
  auto text = open_stream(key, path, {.vocab = vocab, .context = context, .window = window});
  return std::make_unique<MaskedWindows>(std::move(text), context, window, std::move(frame));
}

}  // namespace twobw::data
