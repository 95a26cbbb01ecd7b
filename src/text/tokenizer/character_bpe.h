// BPE of characters, as of Llama 2: a space is written as "▁", the text between two added tokens is merged as
// one word, and a character without a token becomes its bytes ("<0xE2>"), all 256 of which are tokens.
#pragma once

#include <array>
#include <string>
#include <unordered_map>
#include <vector>

#include "text/tokenizer/bpe.h"
#include "text/tokenizer/vocabulary.h"

namespace twobw::tokenizer {

inline constexpr std::string_view kSpaceMark = "\u2581";
std::string mark_spaces(std::string_view text);
std::string unmark_spaces(std::string_view text);

// Token of a byte: "<0x0A>".
std::string byte_token(std::uint8_t byte);

// When spaces are marked, and where a mark is prepended.
enum class SpaceMarks {
  kNormalized,  // marked before `normalized` added tokens are matched, which are marked too
  kPrepended,   // kNormalized, with a mark prepended to the text and after every other added token
  kReplaced,    // marked after all added tokens are matched
  kFirst,       // kReplaced, with a mark prepended to the text
  kAlways,      // kReplaced, with a mark prepended to the text and after every added token
};

struct CharacterBpeModel {
  Vocabulary vocabulary;  // includes all bytes; moved into the tokenizer
  MergeTable merges{0};
  SpaceMarks marks = SpaceMarks::kFirst;
  bool strip = true;  // decoding removes one leading space
};

class CharacterBpe : public VocabularyTokenizer {
 public:
  CharacterBpe(CharacterBpeModel model, const SpecialTokens& tokens);

  void encode(std::string_view text, std::vector<Id>& ids) const override;
  void append_text(Id id, bool first, std::string& text) const override;
  // Only the first token loses its leading space, even if the space is all of it.
  bool begins_after(Id id, bool added) const override {
    return !added && !(model_.strip && !token(id).empty());
  }
  std::string describe() const override { return "BPE of characters, with bytes for others"; }

 private:
  void encode_part(std::string_view part, bool at_start, std::vector<Id>& ids) const;
  void encode_marked(std::string_view text, std::vector<Id>& ids) const;

  CharacterBpeModel model_;
  std::array<Id, 256> bytes_{};
  std::unordered_map<char32_t, Id> characters_;  // single-character tokens
  std::vector<std::string> texts_;               // of every id
};

}  // namespace twobw::tokenizer
