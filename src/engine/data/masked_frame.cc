#include "engine/data/masked_frame.h"

#include "core/base/error.h"

namespace twobw::data {
namespace {

// Those that go on with a word, as "##ing" does.
std::vector<bool> continuing_tokens(const Config& config, const tokenizer::Tokenizer& tokenizer) {
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

}  // namespace

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
  if (special.cls && special.sep) {
    frame.before = {*special.cls};
    frame.after = {*special.sep};
  }
  return frame;
}

}  // namespace twobw::data
