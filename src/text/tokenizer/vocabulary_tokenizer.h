// What tokenizers with a vocabulary and added tokens answer alike.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "text/tokenizer/added_tokens.h"
#include "text/tokenizer/frame.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/vocabulary.h"

namespace twobw::tokenizer {

class VocabularyTokenizer : public Tokenizer {
 public:
  std::string token(Id id) const override { return vocabulary().token(id); }
  std::optional<Id> id(std::string_view token) const override { return vocabulary().find(token); }
  bool is_special(Id id) const override {
    const AddedToken* const found = added_.find(id);
    return found != nullptr && found->special;
  }
  Id vocab_size() const override { return vocabulary().size(); }

 protected:
  // Takes what a sequence begins and ends with out of the frame; its added tokens stay.
  VocabularyTokenizer(Frame& frame, AddedTokens::Normalize normalize)
      : added_(frame.added, std::move(normalize)) {
    special_ = frame.special;
    prefix_ = std::move(frame.prefix);
    suffix_ = std::move(frame.suffix);
    cuts_front_ = frame.cuts_front;
  }
  virtual const Vocabulary& vocabulary() const = 0;

  AddedTokens added_;
};

}  // namespace twobw::tokenizer
