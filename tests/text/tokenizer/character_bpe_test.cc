#include "text/tokenizer/character_bpe.h"

#include <gtest/gtest.h>

#include "tests/text/tokenizer/testing.h"

namespace twobw::tokenizer {
namespace {

using testing::tokens_of;
using Json = nlohmann::json;
using Tokens = std::vector<std::string>;

Json replace(const std::string& from, const std::string& to) {
  return {{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
}

Json metaspace(const std::string& scheme) {
  return {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", scheme}, {"split", false}};
}

Json legacy_normalizer() {
  return {{"type", "Sequence"},
          {"normalizers", {{{"type", "Prepend"}, {"prepend", "▁"}}, replace(" ", "▁")}}};
}

// <unk>, <s>, the bytes, a few characters and their merges; <e> is added and not special.
Json small() {
  Json vocabulary = {{"<unk>", 0}, {"<s>", 1}};
  for (int byte = 0; byte < 256; ++byte)
    vocabulary[byte_token(static_cast<std::uint8_t>(byte))] = vocabulary.size();
  for (const char* const token : {"▁", "t", "h", "e", "▁t", "he", "▁the", "▁▁", "th", "▁th"})
    vocabulary[token] = vocabulary.size();
  const Json steps = {replace("▁", " "),
                      {{"type", "ByteFallback"}},
                      {{"type", "Fuse"}},
                      {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}};
  return {{"added_tokens",
           {{{"id", 1}, {"content", "<s>"}, {"special", true}},
            {{"id", vocabulary.size()}, {"content", "<e>"}, {"special", false}}}},
          {"normalizer", nullptr},
          {"pre_tokenizer", metaspace("first")},
          {"post_processor", nullptr},
          {"decoder", {{"type", "Sequence"}, {"decoders", steps}}},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", "<unk>"},
            {"fuse_unk", true},
            {"byte_fallback", true},
            {"ignore_merges", false},
            {"vocab", vocabulary},
            {"merges", {"▁ t", "h e", "▁t he", "▁ ▁", "t h", "▁t h"}}}}};
}

std::unique_ptr<Tokenizer> opened(const Json& json) {
  return testing::from_json(json.dump());
}

std::unique_ptr<Tokenizer> opened(const Json& json, const Json& config) {
  const JsonDocument document(json.dump(), "tokenizer 'test'"),
      companion(config.dump(), "tokenizer 'config'");
  return read_tokenizer_json(document.root(), CompanionConfig(companion.root()));
}

// With another value at a place.
Json with(const char* place, const Json& value) {
  Json json = small();
  json[Json::json_pointer(place)] = value;
  return json;
}

Json without(const char* object, const char* key) {
  Json json = small();
  json[Json::json_pointer(object)].erase(key);
  return json;
}

TEST(CharacterBpe, MergesByRankAndFallsBackToBytes) {
  const auto tokenizer = opened(small());
  EXPECT_EQ(tokens_of(*tokenizer, "the the"), (Tokens{"▁the", "▁the"}));
  EXPECT_EQ(tokens_of(*tokenizer, "thé\n"), (Tokens{"▁th", "<0xC3>", "<0xA9>", "<0x0A>"}));
  EXPECT_EQ(tokens_of(*tokenizer, "\xFF"), (Tokens{"▁", "<0xEF>", "<0xBF>", "<0xBD>"}));
  EXPECT_TRUE(tokens_of(*tokenizer, "").empty());
}

TEST(CharacterBpe, DecodingStripsOneSpace) {
  const auto tokenizer = opened(small());
  const Id space = *tokenizer->id("▁"), word = *tokenizer->id("▁the"), end = *tokenizer->id("<s>");
  EXPECT_EQ(tokenizer->decode(std::vector<Id>{word, word}), "the the");
  EXPECT_EQ(tokenizer->decode(std::vector<Id>{space, word}), " the");
  EXPECT_EQ(tokenizer->decode(std::vector<Id>{1'000'000, space, word}), " the");
  EXPECT_EQ(tokenizer->decode(std::vector<Id>{end, word}), "<s> the");
  EXPECT_EQ(tokenizer->decode(std::vector<Id>{end, word}, true), "the");
  Json kept = small();
  kept["decoder"]["decoders"].erase(3);
  EXPECT_EQ(opened(kept)->decode(std::vector<Id>{word}), " the");
}

void expect_sentence(const Json& json, const std::string& naming, const Json& config = Json::object()) {
  const std::string sentence = error_of([&] { opened(json, config); });
  EXPECT_TRUE(testing::has(sentence, naming));
  EXPECT_EQ(sentence.find('\n'), std::string::npos);
}

TEST(CharacterBpe, RefusesOtherModels) {
  expect_sentence(with("/model/dropout", 0.1), "model.dropout = 0.1");
  expect_sentence(with("/model/ignore_merges", true), "model.ignore_merges = true");
  expect_sentence(with("/model/continuing_subword_prefix", "##"), "model.continuing_subword_prefix = \"##\"");
  expect_sentence(with("/model/end_of_word_suffix", "</w>"), "model.end_of_word_suffix = \"</w>\"");
  expect_sentence(with("/model/unk_token", "<u>"), "model.unk_token = \"<u>\"; it must be in the vocabulary");
  expect_sentence(with("/model/new", 1), "model.new");
  expect_sentence(without("/model/vocab", "<0xA9>"), "it must hold <0xA9>");
  expect_sentence(with("/model/merges", {"t q"}), "'q'");
  expect_sentence(with("/model/merges", {"t ▁"}), "'t▁'");
  expect_sentence(with("/model/vocab/h", 1U << 30), "the id 1073741824");
  expect_sentence(without("/model", "merges"), "lacks the field model.merges");
}

TEST(CharacterBpe, RefusesOtherMarks) {
  expect_sentence(without("", "pre_tokenizer"), "lacks the field pre_tokenizer");
  expect_sentence(with("/pre_tokenizer/type", "ByteLevel"),
                  "pre_tokenizer.type = \"ByteLevel\"; it must be Metaspace for BPE with byte_fallback");
  expect_sentence(with("/pre_tokenizer/replacement", "_"), "pre_tokenizer.replacement = \"_\"");
  expect_sentence(with("/pre_tokenizer/prepend_scheme", "last"), "pre_tokenizer.prepend_scheme = \"last\"");
  expect_sentence(with("/pre_tokenizer/split", true), "pre_tokenizer.split = true");
  expect_sentence(without("/pre_tokenizer", "split"), "lacks the field pre_tokenizer.split");
  expect_sentence(with("/pre_tokenizer/add_prefix_space", true), "pre_tokenizer.add_prefix_space");
  expect_sentence(with("/normalizer", legacy_normalizer()), "pre_tokenizer = an object; it must be null");
  Json other = small();
  other["pre_tokenizer"] = nullptr;
  other["normalizer"] = {{"type", "NFC"}};
  expect_sentence(other, "normalizer.type = \"NFC\"; it must be Replace");
  other["normalizer"] = replace("  ", "▁");
  expect_sentence(other, "normalizer.pattern.String = \"  \"");
  other["normalizer"] = legacy_normalizer();
  other["normalizer"]["normalizers"][0]["prepend"] = "_";
  expect_sentence(other, "normalizer.normalizers[0].prepend = \"_\"");
  other["normalizer"]["normalizers"] = Json::array();
  expect_sentence(other, "normalizer.normalizers = a list; it must be Prepend and Replace");
}

TEST(CharacterBpe, RefusesOtherDecoders) {
  expect_sentence(without("", "decoder"), "lacks the field decoder");
  expect_sentence(with("/decoder/type", "ByteLevel"), "decoder.type = \"ByteLevel\"; it must be Sequence");
  expect_sentence(with("/decoder/decoders", Json::array()), "decoder.decoders = a list");
  expect_sentence(with("/decoder/decoders/0/content", "_"), "decoder.decoders[0].content = \"_\"");
  expect_sentence(with("/decoder/decoders/1/type", "Fuse"), "it must be ByteFallback");
  expect_sentence(with("/decoder/decoders/3/start", 2), "decoder.decoders[3].start = 2; it must be 1");
  expect_sentence(with("/decoder/decoders/3/stop", 1), "decoder.decoders[3].stop = 1; it must be 0");
}

TEST(CharacterBpe, RefusesOtherClasses) {
  expect_sentence(small(), "tokenizer_class = \"CodeLlamaTokenizer\"; it must be LlamaTokenizer",
                  {{"tokenizer_class", "CodeLlamaTokenizer"}});
}

}  // namespace
}  // namespace twobw::tokenizer
