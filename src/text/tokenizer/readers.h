// Readers of tokenizer files: tokenizer.json of Hugging Face's tokenizers, vocab.json with merges.txt,
// vocab.txt and tokenizer.model. They support BPE of bytes or characters, WordPiece and sentencepiece, and
// reject every other setting by name, because ids that are nearly right are worse than none.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "text/tokenizer/bpe.h"
#include "text/tokenizer/companion_config.h"
#include "text/tokenizer/vocabulary.h"

namespace twobw::tokenizer {

// Text of a file; `path` names it in messages.
struct PlainFile {
  std::string path, text;
};

std::unique_ptr<Tokenizer> read_tokenizer_json(const JsonField& root, const CompanionConfig& companion);

// Byte-level BPE from vocab.json and merges.txt.
std::unique_ptr<Tokenizer> read_vocab_and_merges(const PlainFile& vocab, const PlainFile& merges,
                                                 const CompanionConfig& companion);

// WordPiece from one token per line, by id. Lower case unless tokenizer_config.json says otherwise.
std::unique_ptr<Tokenizer> read_vocab_txt(const PlainFile& vocab, const CompanionConfig& companion);

// Sentencepiece from its model. `json`: tokenizer.json of the same model, if any, which then defines the
// added tokens, prefix and suffix. InputError in builds without sentencepiece.
std::unique_ptr<Tokenizer> read_sentencepiece(const std::string& path, const CompanionConfig& companion,
                                              const std::optional<JsonField>& json = {});

// Models of tokenizer.json; `tokens` from read_special_tokens().
std::unique_ptr<Tokenizer> read_byte_level_bpe(const JsonField& root, const CompanionConfig& companion,
                                               SpecialTokens tokens);
std::unique_ptr<Tokenizer> read_character_bpe(const JsonField& root, const CompanionConfig& companion,
                                              SpecialTokens tokens);
std::unique_ptr<Tokenizer> read_word_piece(const JsonField& root, const CompanionConfig& companion,
                                           SpecialTokens tokens);

// True for "model" of a BPE of characters, as Llama 2 has it.
bool is_character_bpe(const JsonField& model);

// Added tokens, prefix, suffix and truncation of tokenizer.json.
SpecialTokens read_special_tokens(const JsonField& root);

// Throws for unknown keys of a BPE model, and for dropout, which makes ids random.
void check_bpe(const JsonField& model);

// Throw unless a setting that changes ids is missing or neutral: null, empty or false.
void require_empty(const JsonField& part, const std::string& key);
void require_off(const JsonField& part, const std::string& key);

// {"token": id, ...}
Vocabulary read_vocabulary(const JsonField& object);

// Merges by rank, as "a b" or ["a", "b"]. Every token and merged token must be in the vocabulary. `document`
// begins error messages.
MergeTable read_merges(const Vocabulary& vocabulary, const JsonField& list);
MergeTable read_merges(const Vocabulary& vocabulary, const std::vector<std::string>& lines,
                       const std::string& document);

// Lines without their ends, including an unterminated last one.
std::vector<std::string> lines_of(std::string_view text);

}  // namespace twobw::tokenizer
