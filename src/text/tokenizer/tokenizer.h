// Text to token ids and back. One interface for bytes, BPE of bytes or characters, WordPiece and
// sentencepiece; load.h opens them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace twobw::tokenizer {

using Id = std::int32_t;

// Ids of the tokens that mean something to a model, where the tokenizer has them.
struct SpecialIds {
  std::optional<Id> bos, eos, pad, unk, cls, sep, mask;
};

// All functions are const and safe from any thread at once.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Appends the ids of a text. Special tokens that are written out in it ("<|endoftext|>") are recognised;
  // none is added. Text that is not UTF-8 is encoded byte by byte where a token for every byte exists; else
  // what is not UTF-8 counts as U+FFFD.
  virtual void encode(std::string_view text, std::vector<Id>& ids) const = 0;

  // The same between the tokens that begin and end a sequence for the model: [CLS] and [SEP], or
  // <|begin_of_text|>.
  void encode_sequence(std::string_view text, std::vector<Id>& ids) const;
  const std::vector<Id>& prefix() const { return prefix_; }
  const std::vector<Id>& suffix() const { return suffix_; }

  // Appends what a token adds to a text; `first`: it begins one. An unknown id adds nothing.
  virtual void append_text(Id id, bool first, std::string& text) const = 0;

  // Whether the token after `id`, which began a text, begins it too; `added`: `id` had a part in the text.
  virtual bool begins_after(Id, bool added) const { return !added; }

  // Bytes as encoded, UTF-8 or not. Without special tokens where `skip_special`.
  std::string decode(std::span<const Id> ids, bool skip_special = false) const;

  // As the tokenizer's file writes it; empty for an id that is not used.
  virtual std::string token(Id id) const = 0;
  virtual std::optional<Id> id(std::string_view token) const = 0;
  virtual bool is_special(Id id) const = 0;

  // One more than the greatest id.
  virtual Id vocab_size() const = 0;

  // "byte-level BPE, split as GPT-2 does".
  virtual std::string describe() const = 0;

  const SpecialIds& special() const { return special_; }

  // Whether a text that is too long loses its beginning, and not its end.
  bool cuts_front() const { return cuts_front_; }

 protected:
  SpecialIds special_;
  std::vector<Id> prefix_, suffix_;  // of encode_sequence
  bool cuts_front_ = false;
};

}  // namespace twobw::tokenizer
