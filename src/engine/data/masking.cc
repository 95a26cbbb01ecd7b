// Masked-token training: the masks of tokens, and examples with them.
#include "engine/data/masking.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/random.h"
#include "engine/data/sources.h"
#include "engine/data/stream.h"

namespace twobw::data {
namespace {

enum class ForToken { Choice, Change, Other };  // purpose of a random number

// From 0 to below 1.
double unit(std::uint64_t bits) {
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

bool holds(const std::vector<bool>& set, std::int64_t token) {
  return token >= 0 && token < std::ssize(set) && set[static_cast<std::size_t>(token)];
}

// Whether each token continues a word, like "##ing".
std::vector<bool> continuing_tokens(const Config& config, const tokenizer::Tokenizer& tokenizer) {
  std::vector<bool> continues;
  for (tokenizer::Id id = 0; id < tokenizer.vocab_size(); ++id)
    continues.push_back(tokenizer.token(id).starts_with("##"));
  if (std::ranges::find(continues, true) == continues.end()) {
    fail_input(
        "data.whole_words is true, but data.tokenizer '{}' has no tokens that continue a word (##); it "
        "must be a WordPiece tokenizer",
        config.data.tokenizer);
  }
  return continues;
}

}  // namespace

void mask_tokens(const Masking& masking, std::uint64_t key, std::span<std::int64_t> tokens,
                 std::span<std::int64_t> targets) {
  bool in_word = false, chosen = false;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::int64_t token = tokens[i];
    targets[i] = kIgnored;
    if (holds(masking.special, token)) {
      in_word = false;
      continue;
    }
    if (!in_word || !holds(masking.continues, token))
      chosen = unit(random_key(key, i, ForToken::Choice)) < masking.probability;
    in_word = true;
    if (!chosen) continue;
    targets[i] = token;
    const double change = unit(random_key(key, i, ForToken::Change));
    if (change < 0.8) {
      tokens[i] = masking.mask;
    } else if (change < 0.9) {
      const std::uint64_t other = random_key(key, i, ForToken::Other);
      tokens[i] = static_cast<std::int64_t>(other % static_cast<std::uint64_t>(masking.vocab));
    }
  }
}

MaskedFrame masked_frame(const Config& config, const tokenizer::Tokenizer& tokenizer) {
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
  if (TextFrame::separates(tokenizer)) {
    frame.before = {*special.cls};
    frame.after = {*special.sep};
  }
  return frame;
}

namespace {

using tokenizer::Tokenizer;

// Disjoint windows of a text; an incomplete one at its end is dropped.
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
    row.write(Field::Tokens, tokens, 0);
    row.write(Field::Targets, targets, kIgnored);
  }

 private:
  std::unique_ptr<TokenStream> text_;
  std::int64_t length_, window_;  // tokens of a sequence, and of its text
  MaskedFrame frame_;
};

// The mask of bytes is token 256.
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

enum class NextSentence : std::int64_t { Follows = 0, Random = 1 };  // as BertForPreTraining numbers them
enum class ForPair { Cut, Kind, Document, Window, FirstMask, SecondMask };  // purpose of a random number

// [CLS] first [SEP] second [SEP]: a window of a document, cut at random. One time in two the second part is
// the beginning of a window of another document, at most as long. Both parts are masked.
class SentencePairs final : public Examples {
 public:
  SentencePairs(std::unique_ptr<TokenStream> text, DocumentWindows windows, MaskedFrame frame,
                std::int64_t pad)
      : text_(std::move(text)), windows_(std::move(windows)), frame_(std::move(frame)), pad_(pad) {}

  std::int64_t count() const override { return windows_.count(); }
  BatchFields fields() const override {
    return {Field::Tokens, Field::Targets, Field::TokenTypes, Field::Lengths, Field::Labels};
  }
  bool is_dense() const override { return false; }
  bool varies() const override { return true; }
  std::string describe() const override { return text_->describe() + ", masked, in pairs"; }

  void write(std::int64_t example, std::uint64_t key, const BatchRow& row) const override {
    const Pair pair = pair_of(example, key);
    std::ranges::fill(row[Field::Labels], static_cast<std::int64_t>(pair.kind));
    const std::int64_t first_part = std::ssize(frame_.before) + pair.first.length + std::ssize(frame_.after);
    const std::int64_t length = first_part + pair.second.length + std::ssize(frame_.after);
    std::ranges::fill(row[Field::Lengths], length);
    if (const auto types = row[Field::TokenTypes]; !types.empty()) {
      std::ranges::fill(types, 0);
      std::ranges::fill(types.subspan(first_part, length - first_part), 1);
    }
    if (!row[Field::Tokens].empty() || !row[Field::Targets].empty()) write_tokens(pair, key, row);
  }

 private:
  struct Stretch {
    std::int64_t begin, length;  // in the text
  };
  struct Pair {
    Stretch first, second;
    NextSentence kind;
  };

  static std::int64_t drawn(std::uint64_t key, ForPair what, std::int64_t below) {
    return static_cast<std::int64_t>(random_key(key, what) % static_cast<std::uint64_t>(below));
  }

  Pair pair_of(std::int64_t example, std::uint64_t key) const {
    const DocumentWindows::Window window = windows_.window(example);
    const std::int64_t cut = 1 + drawn(key, ForPair::Cut, window.length - 1);
    Pair pair{.first = {window.begin, cut},
              .second = {window.begin + cut, window.length - cut},
              .kind = NextSentence{drawn(key, ForPair::Kind, 2)}};
    if (pair.kind == NextSentence::Follows) return pair;
    const std::int64_t documents = windows_.documents();
    const std::int64_t document =
        (window.document + 1 + drawn(key, ForPair::Document, documents - 1)) % documents;
    const std::int64_t first = windows_.first(document), last = windows_.last(document);
    const auto other = windows_.window(first + drawn(key, ForPair::Window, last - first));
    pair.second = {other.begin, std::min(other.length, window.length - cut)};
    return pair;
  }

  void write_tokens(const Pair& pair, std::uint64_t key, const BatchRow& row) const {
    std::vector<std::int64_t> seen, asked;
    const auto add = [&](const std::vector<std::int64_t>& ids) {
      seen.insert(seen.end(), ids.begin(), ids.end());
      asked.resize(seen.size(), kIgnored);
    };
    const auto add_masked = [&](const Stretch& stretch, ForPair mask) {
      const std::size_t begin = seen.size();
      seen.resize(begin + static_cast<std::size_t>(stretch.length));
      asked.resize(seen.size(), kIgnored);
      const auto text = std::span(seen).subspan(begin);
      text_->read(stretch.begin, text);
      mask_tokens(frame_.masking, random_key(key, mask), text, std::span(asked).subspan(begin));
    };
    add(frame_.before);
    add_masked(pair.first, ForPair::FirstMask);
    add(frame_.after);
    add_masked(pair.second, ForPair::SecondMask);
    add(frame_.after);
    row.write(Field::Tokens, seen, pad_);
    row.write(Field::Targets, asked, kIgnored);
  }

  std::unique_ptr<TokenStream> text_;
  DocumentWindows windows_;
  MaskedFrame frame_;
  std::int64_t pad_;
};

void check_model_of_pairs(const Config& config, const Tokenizer& tokenizer) {
  const ModelConfig& model = config.model;
  if (!TextFrame::separates(tokenizer)) {
    fail_input(
        "model.next_sentence is true, but data.tokenizer '{}' has no [CLS] and [SEP], which two parts stand "
        "between",
        config.data.tokenizer);
  }
  constexpr int kLeast = 5;  // with one token in each part
  if (model.context < kLeast)
    fail_input("model.context is {}; with model.next_sentence it must be at least {}", model.context, kLeast);
  if (model.token_types < 2) {
    fail_input("model.token_types is {}, but with model.next_sentence there are two; it must be at least 2",
               model.token_types);
  }
  if (!model.padding) {
    fail_input(
        "model.padding is false, but with model.next_sentence sequences are of many lengths; it must be "
        "true");
  }
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
  // Synthetic tokens are ones that may be masked.
  const int vocab = path == "synthetic" ? static_cast<int>(frame.masking.vocab) : config.model.vocab;
  auto text = open_stream(key, path, {.vocab = vocab, .context = context, .window = window});
  return std::make_unique<MaskedWindows>(std::move(text), context, window, std::move(frame));
}

std::unique_ptr<Examples> open_sentence_pairs(const std::string& key, const std::string& path,
                                              const Config& config, const Tokenizer& tokenizer) {
  check_model_of_pairs(config, tokenizer);
  MaskedFrame frame = masked_frame(config, tokenizer);
  const int context = config.model.context;
  const auto window = context - static_cast<int>(frame.before.size() + 2 * frame.after.size());
  auto text = open_stream(key, path, {.vocab = config.model.vocab, .context = context, .window = 2});
  DocumentWindows windows(text->document_ends(), window);
  if (windows.documents() < 2) {
    fail_input(
        "{} is '{}' with {} documents of two tokens or more; with model.next_sentence it must be token files "
        "with at least 2",
        key, path, windows.documents());
  }
  return std::make_unique<SentencePairs>(std::move(text), std::move(windows), std::move(frame),
                                         tokenizer.special().pad.value_or(0));
}

}  // namespace twobw::data
