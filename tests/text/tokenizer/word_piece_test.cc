#include "text/tokenizer/word_piece.h"

#include <gtest/gtest.h>

#include "tests/text/tokenizer/testing.h"

namespace twobw::tokenizer {
namespace {

using testing::tokens_of;
using Tokens = std::vector<std::string>;

std::string split_words(std::string_view text) {
  std::string words;
  split_bert_words(text, [&](std::string_view word) { (words += word) += '|'; });
  return words;
}

TEST(BertText, CleansAndNormalizes) {
  const BertNormalizer normalize;
  EXPECT_EQ(normalize("Hello\tWORLD\u00A0x"), "hello world x");
  EXPECT_EQ(normalize("\u00C9t\u00E9 e\u0301\u0323"), "ete e");
  EXPECT_EQ(normalize("a\x01"
                      "b\u200D"
                      "c\uFFFD"
                      "d\xFF"),
            "abcd");
  EXPECT_EQ(normalize("x\u4E2Dy"), "x \u4E2D y");
  EXPECT_EQ(normalize("\u0130"), "i");
  EXPECT_EQ((BertNormalizer{.strip_accents = false})("\u0130\u00C9"), "i\u0307\u00E9");
  EXPECT_EQ((BertNormalizer{.strip_accents = false, .lower_case = false})("\u00C9A"), "\u00C9A");
}

TEST(BertText, PunctuationIsAWord) {
  EXPECT_EQ(split_words("a,b  c$ \u201Cd\u201D"), "a|,|b|c|$|\u201C|d|\u201D|");
  EXPECT_EQ(split_words(""), "");
}

std::unique_ptr<Tokenizer> small_bert(const testing::Folder& folder) {
  folder.write("vocab.txt",
               "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nun\n##aff\n##able\n##a\nhello\n,\n.\n\u00E9\ne\n");
  return load_tokenizer(folder.path());
}

TEST(WordPiece, TakesTheLongestPieceEachTime) {
  const testing::Folder folder;
  const auto tokenizer = small_bert(folder);
  EXPECT_EQ(tokens_of(*tokenizer, "Unaffable, hello."), (Tokens{"un", "##aff", "##able", ",", "hello", "."}));
  EXPECT_EQ(tokens_of(*tokenizer, "unx hello \u00C9"), (Tokens{"[UNK]", "hello", "e"}));
  EXPECT_EQ(tokens_of(*tokenizer, "[MASK]hello[SEP]"), (Tokens{"[MASK]", "hello", "[SEP]"}));
  EXPECT_EQ(tokens_of(*tokenizer, "un" + std::string(98, 'a')).size(), 99u);
  EXPECT_EQ(tokens_of(*tokenizer, "un" + std::string(99, 'a')), Tokens{"[UNK]"});
}

TEST(WordPiece, FramesASequenceAndDecodes) {
  const testing::Folder folder;
  const auto tokenizer = small_bert(folder);
  std::vector<Id> ids;
  tokenizer->encode_sequence("unaffable, hello.", ids);
  EXPECT_EQ(ids.front(), 2);
  EXPECT_EQ(ids.back(), 3);
  EXPECT_EQ(tokenizer->decode(ids), "[CLS] unaffable, hello. [SEP]");
  EXPECT_EQ(tokenizer->decode(ids, true), "unaffable, hello.");
}

}  // namespace
}  // namespace twobw::tokenizer
