#include "text/tokenizer/companion_config.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/text/tokenizer/testing.h"

namespace twobw::tokenizer {
namespace {

using Tokens = std::vector<std::string>;

class CompanionFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    write_bpe(testing::learned(320), {"<|endoftext|>"}, folder_.path());
    std::filesystem::remove(folder_.file("tokenizer.json"));
    size_ = load_tokenizer(folder_.path())->vocab_size();
  }
  // Tokens of the whole sequence.
  Tokens tokens(std::string_view text) const {
    const auto tokenizer = load_tokenizer(folder_.path());
    std::vector<Id> ids;
    tokenizer->encode_sequence(text, ids);
    Tokens all;
    for (const Id id : ids) all.push_back(tokenizer->token(id));
    return all;
  }
  std::string complaint() const {
    return error_of([&] { load_tokenizer(folder_.path()); });
  }
  void expect_refused(const std::string& file, const std::string& text, const std::string& naming) const {
    folder_.write(file, text);
    EXPECT_TRUE(testing::has(complaint(), naming));
    std::filesystem::remove(folder_.file(file));
  }

  testing::Folder folder_;
  Id size_ = 0;
};

TEST_F(CompanionFiles, TokensOfEveryFileAreFound) {
  folder_.write("added_tokens.json", fmt::format(R"({{"<b>":{},"<a>":{}}})", size_ + 1, size_));
  folder_.write("special_tokens_map.json",
                R"({"eos_token":{"content":"<b>"},"additional_special_tokens":["<c>"]})");
  EXPECT_EQ(tokens("<a><b><c>"), (Tokens{"<a>", "<b>", "<c>"}));
  const auto tokenizer = load_tokenizer(folder_.path());
  EXPECT_EQ(tokenizer->special().eos, size_ + 1);
  EXPECT_EQ(tokenizer->vocab_size(), size_ + 3);
  EXPECT_FALSE(tokenizer->is_special(size_));
  EXPECT_TRUE(tokenizer->is_special(size_ + 2));
  // With a list of all tokens these two files do not count.
  folder_.write("tokenizer_config.json",
                fmt::format(R"({{"added_tokens_decoder":{{"{}":{{"content":"<c>"}}}}}})", size_));
  EXPECT_EQ(load_tokenizer(folder_.path())->id("<c>"), size_);
  EXPECT_EQ(load_tokenizer(folder_.path())->id("<a>"), std::nullopt);
}

TEST_F(CompanionFiles, RefusesUnsupportedSettings) {
  const auto far = std::to_string(size_ + 7);
  expect_refused("added_tokens.json", R"({"<a>":)" + far + "}", "the id " + std::to_string(size_));
  expect_refused("tokenizer_config.json", R"({"added_tokens_decoder":{")" + far + R"(":{"content":"<a>"}}})",
                 "the id " + std::to_string(size_));
  expect_refused("tokenizer_config.json", R"({"split_special_tokens":true})", "split_special_tokens");
  expect_refused("tokenizer_config.json", R"({"truncation_side":"middle"})", "truncation_side");
  expect_refused("tokenizer_config.json", R"({"tokenizer_class":"Qwen2Tokenizer","add_prefix_space":true})",
                 "add_prefix_space = true");
  expect_refused("tokenizer_config.json", R"({"tokenizer_class":"PhobertTokenizer"})", "PhobertTokenizer");
  expect_refused("tokenizer_config.json", R"({"a_token":"<a>","b_token":"<b>"})", "added_tokens_decoder");
  EXPECT_EQ(complaint(), "");
}

}  // namespace
}  // namespace twobw::tokenizer
