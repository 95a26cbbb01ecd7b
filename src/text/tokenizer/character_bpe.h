// BPE of characters, as of Llama 2: a space is written as "▁", the whole of a text between added tokens is
// merged as one word, and a character that is no token is its bytes, "<0xE2>", of which all 256 are tokens.
#pragma once

#include <array>
#include <string>
#include <unordered_map>
#include <vector>

#include "text/tokenizer/frame.h"
#include "text/tokenizer/merge_table.h"
#include "text/tokenizer/vocabulary_tokenizer.h"

namespace twobw::tokenizer {

// The token of a byte: "<0x0A>".
std::string byte_token(std::uint8_t byte);

// How a text gets its marks.
enum class SpaceMarks {
  kNormalized,  // before added tokens that are `normalized` are looked for, so that these have marks too
  kPrepended,   // so, and one more begins the text and what follows every other added token
  kReplaced,    // after all added tokens
  kFirst,       // so, and the text begins with one
  kAlways,      // so, and what follows every added token, too, begins with one
};

struct CharacterBpeModel {
  Vocabulary vocabulary;  // with all the bytes
  MergeTable merges{0};
  SpaceMarks marks = SpaceMarks::kFirst;
  bool strip = true;  // decoding leaves out a space at the beginning
};

class CharacterBpe : public VocabularyTokenizer {
 public:
  CharacterBpe(CharacterBpeModel model, Frame frame);

  void encode(std::string_view text, std::vector<Id>& ids) const override;
  void append_text(Id id, bool first, std::string& text) const override;
  // Only the first token loses a space, be it all of it.
  bool begins_after(Id id, bool added) const override {
    return !added && !(model_.strip && !token(id).empty());
  }
  std::string describe() const override;

 private:
  const Vocabulary& vocabulary() const override { return model_.vocabulary; }
  void encode_part(std::string_view part, bool at_start, std::vector<Id>& ids) const;
  void encode_marked(std::string_view text, std::vector<Id>& ids) const;

  CharacterBpeModel model_;
  std::array<Id, 256> bytes_{};
  std::unordered_map<char32_t, Id> characters_;  // those that are tokens
  std::vector<std::string> texts_;               // of every id
};

}  // namespace twobw::tokenizer
