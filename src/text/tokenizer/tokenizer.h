// Text to token ids and back: one interface for bytes, BPE of bytes or characters, WordPiece and
// sentencepiece.
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

// Ids of the special tokens, if the tokenizer has them.
struct SpecialIds {
  std::optional<Id> bos, eos, pad, unk, cls, sep, mask;
};

// All functions are const and thread-safe.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Appends the ids of a text. Special tokens written in the text ("<|endoftext|>") are recognized, and none
  // is added. Invalid UTF-8 is encoded byte by byte if every byte has a token, else as U+FFFD.
  virtual void encode(std::string_view text, std::vector<Id>& ids) const = 0;

  // Appends prefix, ids of the text, and suffix, such as [CLS] and [SEP], or <|begin_of_text|>.
  void encode_sequence(std::string_view text, std::vector<Id>& ids) const;
  const std::vector<Id>& prefix() const { return prefix_; }
  const std::vector<Id>& suffix() const { return suffix_; }

  // Appends the text of a token; `first`: the token begins the text. An unknown id appends nothing.
  virtual void append_text(Id id, bool first, std::string& text) const = 0;

  // True if the token after a first token `id` is first as well; `added`: `id` appended text.
  virtual bool begins_after(Id, bool added) const { return !added; }

  // Returns the encoded bytes, valid UTF-8 or not. `skip_special` omits special tokens.
  std::string decode(std::span<const Id> ids, bool skip_special = false) const;

  // Token as spelled in the tokenizer's file; empty for an unused id.
  virtual std::string token(Id id) const = 0;
  virtual std::optional<Id> id(std::string_view token) const = 0;
  virtual bool is_special(Id id) const = 0;

  // Greatest id + 1.
  virtual Id vocab_size() const = 0;

  // "byte-level BPE, split as GPT-2 does".
  virtual std::string describe() const = 0;

  const SpecialIds& special() const { return special_; }

  // True if truncation removes the beginning of a text, false if it removes the end.
  bool cuts_front() const { return cuts_front_; }

 protected:
  SpecialIds special_;
  std::vector<Id> prefix_, suffix_;  // for encode_sequence
  bool cuts_front_ = false;
};

// `path` is "bytes", a file, or a folder with one of tokenizer.json, vocab.json and merges.txt, vocab.txt
// (WordPiece), tokenizer.model (sentencepiece), in this order of preference. Throws InputError.
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& path);

// True if the folder has tokenizer files.
bool has_tokenizer(const std::string& folder);

// Returns `path`, or the model folder `model` if `path` is missing and `model` has a copy of the tokenizer.
std::string present_tokenizer(const std::string& path, const std::string& model);

}  // namespace twobw::tokenizer
