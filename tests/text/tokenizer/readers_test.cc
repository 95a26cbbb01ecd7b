#include "text/tokenizer/readers.h"

#include <gtest/gtest.h>

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

void expect_refused(const std::string& json, const std::string& naming) {
  const std::string sentence = error_of([&] { testing::from_json(json); });
  EXPECT_TRUE(testing::has(sentence, naming));
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
  nlohmann::json json = nlohmann::json::parse(testing::small_json());
  const std::string lines = json.dump();
  for (nlohmann::json& merge : json["model"]["merges"]) {
    const std::string line = merge;
    merge = {line.substr(0, line.find(' ')), line.substr(line.find(' ') + 1)};
  }
  EXPECT_EQ(encoded(*testing::from_json(json.dump()), testing::kProse),
            encoded(*testing::from_json(lines), testing::kProse));
}

TEST(TokenizerJson, ChoosesTheSplitterByItsPattern) {
  const std::string llama3 = changed(
      testing::small_json(), kByteLevelOnly,
      with_split(
          R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"));
  EXPECT_EQ(testing::from_json(llama3)->describe(), "byte-level BPE, split as Llama 3 does");
  expect_refused(changed(testing::small_json(), kByteLevelOnly, with_split("[a-z]+|.")), "[a-z]+|.");
}

// Seeds of the fuzz target tokenizer_json cover invalid JSON, ids and merges.
TEST(TokenizerJson, RefusesUnknownSettings) {
  const std::string json = testing::small_json();
  expect_refused("[]", "be an object");
  expect_refused("{}", "lacks the field model");
  expect_refused(changed(json, "\"BPE\"", "\"Unigram\""), "model.type = \"Unigram\"");
  expect_refused(changed(json, "\"normalizer\":null", "\"normalizer\":{\"type\":\"NFKC\"}"), "NFKC");
  expect_refused(changed(json, "\"byte_fallback\":false", "\"byte_fallback\":true"), "with byte_fallback");
  expect_refused(changed(json, "\"fuse_unk\"", "\"fuse_uk\""), "model.fuse_uk");
  expect_refused(changed(json, "{\"type\":\"ByteLevel\"", "{\"type\":\"Whitespace\""), "Whitespace");
  expect_refused(changed(json, "\"post_processor\":null", "\"post_processor\":{\"type\":\"New\"}"),
                 "\"New\"");
  expect_refused(changed(json, "\"!\":0", "\"!\":\"0\""), "\"0\"");
}

TEST(LoadTokenizer, SaysWhatIsMissing) {
  const testing::Folder folder;
  const auto expect = [](const std::string& path, const char* naming) {
    EXPECT_TRUE(testing::has(error_of([&] { load_tokenizer(path); }), naming));
  };
  expect(folder.path(), "holds no tokenizer");
  expect(folder.file("none"), "there is no tokenizer");
  folder.write("vocab.json", "{\"a\":0}");
  expect(folder.path(), "merges.txt");
  folder.write("merges.txt", "a b\n");
  expect(folder.path(), "'b'");
  folder.write("vocab.txt", "a\nb\n");
  expect(folder.file("vocab.txt"), "[UNK]");
  folder.write("x.bin", "");
  expect(folder.file("x.bin"), "must end in");
}

}  // namespace
}  // namespace twobw::tokenizer
