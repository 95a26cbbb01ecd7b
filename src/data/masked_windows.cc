#include <algorithm>

#include "base/error.h"
#include "data/masking.h"
#include "data/sources.h"

namespace twobw::data {
namespace {

using tokenizer::Tokenizer;

// What a sequence is made of besides the text.
struct MaskedFrame {
  Masking masking;
  std::vector<std::int64_t> before = {}, after = {};  // [CLS] and [SEP]
};

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

// Those that go on with a word, as "##ing" does.
std::vector<bool> continuing_tokens(const Config& config, const Tokenizer& tokenizer) {
  std::vector<bool> continues;
  bool any = false;
  for (tokenizer::Id id = 0; id < tokenizer.vocab_size(); ++id) {
    continues.push_back(tokenizer.token(id).starts_with("##"));
    any = any || continues.back();
  }
  if (!any) {
    fail_input(
        "data.whole_words is true, but data.tokenizer '{}' has no tokens that go on with a word (##); it "
        "must be a WordPiece tokenizer",
        config.data.tokenizer);
  }
  return continues;
}

MaskedFrame frame_by(const Config& config, const Tokenizer& tokenizer) {
  const tokenizer::SpecialIds& special = tokenizer.special();
  if (!special.mask) {
    fail_input(
        "model.head is masked_lm, but data.tokenizer '{}' has no mask token; name the tokenizer that made "
        "the token files, and one with [MASK] or <mask>",
        config.data.tokenizer);
  }
  MaskedFrame frame{.masking = {.probability = config.data.mask_probability,
                                .mask = *special.mask,
                                .vocab = tokenizer.vocab_size()}};
  for (tokenizer::Id id = 0; id < tokenizer.vocab_size(); ++id)
    frame.masking.special.push_back(tokenizer.is_special(id));
  if (config.data.whole_words) frame.masking.continues = continuing_tokens(config, tokenizer);
  if (special.cls && special.sep) {
    frame.before = {*special.cls};
    frame.after = {*special.sep};
  }
  return frame;
}

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
  MaskedFrame frame = by_tokenizer ? frame_by(config, tokenizer) : frame_of_bytes(config);
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
