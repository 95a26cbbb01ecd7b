#include "text/tokenizer/readers.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/text/tokenizer/testing.h"

namespace twobw::tokenizer {
namespace {

using testing::encoded;
using testing::tokens_of;
using Tokens = std::vector<std::string>;

std::string changed(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string complaint(const std::string& json) {
  try {
    testing::from_json(json);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

void expect_refused(const std::string& json, const std::string& naming) {
  const std::string sentence = complaint(json);
  EXPECT_NE(sentence, "accepted");
  EXPECT_NE(sentence.find(naming), std::string::npos) << sentence;
  EXPECT_EQ(sentence.find('\n'), std::string::npos);
}

const std::string kByteLevelOnly =
    R"("pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true})";

std::string with_split(const std::string& pattern) {
  return R"("pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":)" +
         nlohmann::json(pattern).dump() +
         R"(},"behavior":"Isolated","invert":false},{"type":"ByteLevel","add_prefix_space":false,)"
         R"("trim_offsets":true,"use_regex":false}]})";
}

TEST(TokenizerJson, ReadsMergesInBothForms) {
  const std::string json = testing::small_json();
  std::string pairs = json;
  const std::size_t start = pairs.find("\"merges\":[") + 10;
  std::string list = pairs.substr(start, pairs.rfind("]}") - start);
  for (std::size_t at = list.find(' '); at != std::string::npos; at = list.find(' ', at + 3)) {
    list.replace(at, 1, "\",\"");
  }
  std::string bracketed = "[";
  for (std::size_t at = 0, quotes = 0; at < list.size(); ++at) {
    const bool quote = list[at] == '"' && (at == 0 || list[at - 1] != '\\');
    if (quote) ++quotes;
    bracketed += list[at];
    if (quote && quotes % 4 == 0 && at + 1 < list.size()) {
      bracketed += "],[";
      ++at;  // the comma
    }
  }
  pairs = pairs.substr(0, start) + bracketed + "]" + pairs.substr(pairs.rfind("]}"));
  EXPECT_EQ(encoded(*testing::from_json(pairs), testing::kProse),
            encoded(*testing::from_json(json), testing::kProse));
}

TEST(TokenizerJson, ChoosesTheSplitterByItsPattern) {
  const std::string llama3 = changed(
      testing::small_json(), kByteLevelOnly,
      with_split(
          R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"));
  EXPECT_EQ(testing::from_json(llama3)->describe(), "byte-level BPE, split as Llama 3 does");
  expect_refused(changed(testing::small_json(), kByteLevelOnly, with_split("[a-z]+|.")), "[a-z]+|.");
}

TEST(TokenizerJson, NormalFormC) {
  const auto tokenizer = testing::from_json(
      changed(testing::small_json(), "\"normalizer\":null", "\"normalizer\":{\"type\":\"NFC\"}"));
  EXPECT_EQ(encoded(*tokenizer, "e\u0301 \u1100\u1161"), encoded(*tokenizer, "\u00E9 \uAC00"));
  const std::string broken =
      "e\u0301\xFF"
      "e\u0301";
  EXPECT_EQ(tokenizer->decode(encoded(*tokenizer, broken)), "\u00E9\xFF\u00E9");
}

TEST(TokenizerJson, TemplatesFrameASequence) {
  const std::string json = changed(
      testing::small_json(), "\"post_processor\":null",
      R"("post_processor":{"type":"Sequence","processors":[{"type":"ByteLevel"},{"type":"TemplateProcessing",)"
      R"("single":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],)"
      R"("pair":[],"special_tokens":{"<s>":{"id":"<s>","ids":[5],"tokens":["<s>"]}}}]})");
  const auto tokenizer = testing::from_json(json);
  std::vector<Id> ids;
  tokenizer->encode_sequence(" the", ids);
  EXPECT_EQ(ids, (std::vector<Id>{5, *tokenizer->id("\u0120the")}));
}

TEST(TokenizerJson, RefusesWhatItDoesNotKnow) {
  const std::string json = testing::small_json();
  expect_refused("", "is not JSON");
  expect_refused("[]", "be an object");
  expect_refused("{}", "lacks the field model");
  expect_refused(changed(json, "\"BPE\"", "\"Unigram\""), "model.type = \"Unigram\"");
  expect_refused(changed(json, "\"normalizer\":null", "\"normalizer\":{\"type\":\"NFKC\"}"), "NFKC");
  expect_refused(changed(json, "\"byte_fallback\":false", "\"byte_fallback\":true"), "with byte_fallback");
  expect_refused(changed(json, "\"dropout\":null", "\"dropout\":0.1"), "dropout");
  expect_refused(changed(json, "\"fuse_unk\"", "\"fuse_uk\""), "model.fuse_uk");
  expect_refused(changed(json, "{\"type\":\"ByteLevel\"", "{\"type\":\"Whitespace\""), "Whitespace");
  expect_refused(changed(json, "\"post_processor\":null", "\"post_processor\":{\"type\":\"New\"}"),
                 "\"New\"");
  expect_refused(changed(json, "\"!\":0", "\"!\":4000000000"), "4000000000");
  expect_refused(changed(json, "\"!\":0", "\"!\":-1"), "-1");
  expect_refused(changed(json, "\"!\":0", "\"!\":\"0\""), "\"0\"");
  expect_refused(changed(json, "\"merges\":[\"", "\"merges\":[\"q\u0120 q\u0120\",\""), "q\u0120");
  expect_refused(changed(json, "\"merges\":[\"", "\"merges\":[\"abc\",\""), "'abc'");
}

TEST(TokenizerJson, DepthDoesNoHarm) {
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  expect_refused(deep, "be an object");
  expect_refused("{\"model\":" + deep + "}", "be an object");
  expect_refused(changed(testing::small_json(), "\"normalizer\":null", "\"normalizer\":" + deep),
                 "be an object");
}

TEST(LoadTokenizer, SaysWhatIsMissing) {
  const testing::Folder folder;
  const auto refused = [](const std::string& path) -> std::string {
    try {
      load_tokenizer(path);
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_NE(refused(folder.path()).find("holds no tokenizer"), std::string::npos);
  EXPECT_NE(refused(folder.file("none")).find("there is no tokenizer"), std::string::npos);
  folder.write("vocab.json", "{\"a\":0}");
  EXPECT_NE(refused(folder.path()).find("merges.txt"), std::string::npos);
  folder.write("merges.txt", "a b\n");
  EXPECT_NE(refused(folder.path()).find("'b'"), std::string::npos);
  folder.write("vocab.txt", "a\nb\n");
  EXPECT_NE(refused(folder.file("vocab.txt")).find("[UNK]"), std::string::npos);
  folder.write("x.bin", "");
  EXPECT_NE(refused(folder.file("x.bin")).find("must end in"), std::string::npos);
}

}  // namespace
}  // namespace twobw::tokenizer
