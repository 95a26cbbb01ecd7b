#include "engine/data/masking.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/random.h"

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

}  // namespace twobw::data
