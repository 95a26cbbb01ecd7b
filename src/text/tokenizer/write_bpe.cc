#include "text/tokenizer/write_bpe.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/text_file.h"
#include "text/tokenizer/byte_alphabet.h"

namespace twobw::tokenizer {
namespace {

// Objects of JSON are written by hand here, in the order of ids: the library's ordered ones take quadratic
// time.
std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump();
}

std::string vocab_json(const LearnedBpe& bpe, const std::vector<std::string>& special) {
  std::string out;
  Id id = 0;
  const auto add = [&](const std::string& token) {
    out += fmt::format("{}{}:{}", id == 0 ? "{" : ",", quoted(token), id);
    ++id;
  };
  for (const std::string& token : bpe.tokens) add(visible_text(token));
  for (const std::string& token : special) add(token);
  return out + "}";
}

std::string merge_line(const LearnedBpe& bpe, const std::pair<Id, Id>& merge) {
  return visible_text(bpe.tokens[static_cast<std::size_t>(merge.first)]) + " " +
         visible_text(bpe.tokens[static_cast<std::size_t>(merge.second)]);
}

std::string added_tokens(const LearnedBpe& bpe, const std::vector<std::string>& special) {
  std::string out;
  for (std::size_t i = 0; i < special.size(); ++i) {
    out += fmt::format(R"({}{{"id":{},"content":{},"single_word":false,"lstrip":false,"rstrip":false,)"
                       R"("normalized":false,"special":true}})",
                       i == 0 ? "" : ",", bpe.tokens.size() + i, quoted(special[i]));
  }
  return out;
}

}  // namespace

std::string tokenizer_json(const LearnedBpe& bpe, const std::vector<std::string>& special) {
  std::string merges;
  for (const auto& merge : bpe.merges) {
    merges += (merges.empty() ? "" : ",") + quoted(merge_line(bpe, merge));
  }
  constexpr const char* kByteLevel =
      R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true})";
  return fmt::format(R"({{
"version":"1.0",
"truncation":null,
"padding":null,
"added_tokens":[{}],
"normalizer":null,
"pre_tokenizer":{},
"post_processor":null,
"decoder":{},
"model":{{"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":null,"end_of_word_suffix":null,)"
                     R"("fuse_unk":false,"byte_fallback":false,"ignore_merges":false,
"vocab":{},
"merges":[{}]}}
}}
)",
                     added_tokens(bpe, special), kByteLevel, kByteLevel, vocab_json(bpe, special), merges);
}

void write_bpe(const LearnedBpe& bpe, const std::vector<std::string>& special, const std::string& folder) {
  for (const std::string& token : bpe.tokens) {
    if (std::ranges::find(special, visible_text(token)) != special.end()) {
      fail_input("the special token '{}' is also one that was learned; it must be text that does not occur",
                 visible_text(token));
    }
  }
  const std::filesystem::path path(folder);
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) fail_input("folder '{}' cannot be made: {}", folder, error.message());
  std::string merges = "#version: 0.2\n";
  for (const auto& merge : bpe.merges) merges += merge_line(bpe, merge) + "\n";
  write_text((path / "vocab.json").string(), vocab_json(bpe, special) + "\n");
  write_text((path / "merges.txt").string(), merges);
  write_text((path / "tokenizer.json").string(), tokenizer_json(bpe, special));
}

}  // namespace twobw::tokenizer
