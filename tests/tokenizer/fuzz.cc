#include "tests/tokenizer/fuzz.h"

#include <chrono>

#include "base/error.h"
#include "tests/tokenizer/testing.h"
#include "tokenizer/plain_files.h"

namespace twobw::tokenizer::testing {
namespace {

std::string word_piece_json() {
  return R"({"version":"1.0","added_tokens":[{"id":0,"content":"[PAD]","special":true},)"
         R"({"id":4,"content":"the","normalized":true,"lstrip":true,"rstrip":true,"single_word":true}],)"
         R"("normalizer":{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,)"
         R"("strip_accents":null,"lowercase":true},"pre_tokenizer":{"type":"BertPreTokenizer"},)"
         R"("post_processor":{"type":"BertProcessing","sep":["[SEP]",2],"cls":["[CLS]",1]},)"
         R"("decoder":{"type":"WordPiece","prefix":"##","cleanup":true},)"
         R"("model":{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##",)"
         R"("max_input_chars_per_word":100,"vocab":{"[PAD]":0,"[CLS]":1,"[SEP]":2,"[UNK]":3,"the":4,"##s":5,"a":6}}})";
}

// Small, so that damage often hits what is read first.
std::string byte_level_json() {
  return R"({"added_tokens":[{"id":5,"content":"<e>","lstrip":true,"special":true}],"normalizer":{"type":"NFC"},)"
         R"("pre_tokenizer":{"type":"ByteLevel","add_prefix_space":true,"use_regex":true},)"
         R"("post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<e>","type_id":0}},)"
         R"({"Sequence":{"id":"A","type_id":0}}],"special_tokens":{"<e>":{"id":"<e>","ids":[5],"tokens":["<e>"]}}},)"
         R"("decoder":{"type":"ByteLevel"},"model":{"type":"BPE","unk_token":"u","fuse_unk":true,"ignore_merges":true,)"
         R"("vocab":{"a":0,"b":1,"ab":2,"aba":3,"u":4},"merges":["a b",["ab","a"]]}})";
}

class Damage {
 public:
  explicit Damage(std::uint32_t seed) : random_(seed) {}

  std::string operator()(std::string text) {
    for (std::size_t times = 1 + below(3); times > 0; --times) change(text);
    return text;
  }

  std::size_t below(std::size_t limit) { return random_() % limit; }

 private:
  void change(std::string& text) {
    static const std::string kPieces[] = {"\"",
                                          "{",
                                          "}",
                                          "[",
                                          "]",
                                          ",",
                                          ":",
                                          "null",
                                          "true",
                                          "-1",
                                          "1e99",
                                          "0",
                                          "4294967295",
                                          "99999999999999999999",
                                          "\\u0000",
                                          "\\ud800",
                                          "\xFF",
                                          " ",
                                          "\n",
                                          "\"\"",
                                          "##",
                                          "a b",
                                          "{\"type\":\"Sequence\"}",
                                          "\xC4\xA0"};
    if (text.empty()) return;
    const std::size_t at = below(text.size());
    const std::size_t length = std::min(text.size() - at, below(8) == 0 ? below(200) : below(4));
    switch (below(6)) {
      case 0:
        text[at] = static_cast<char>(below(256));
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(at, kPieces[below(std::size(kPieces))]);
        break;
      case 3:
        text.replace(at, length, kPieces[below(std::size(kPieces))]);
        break;
      case 4:
        text.insert(at, text.substr(below(text.size()), length));
        break;
      default:
        if (below(10) == 0) text.resize(at);
    }
  }

  std::mt19937 random_;
};

// Whatever was loaded must also work.
void use(const Tokenizer& tokenizer) {
  std::vector<Id> ids;
  tokenizer.encode_sequence("the abab \u00E9\u4E2D<e> [PAD]\xFF", ids);
  ids.push_back(0);
  tokenizer.decode(ids);
  tokenizer.token(tokenizer.vocab_size() - 1);
}

}  // namespace

FuzzResult fuzz_tokenizers(std::uint32_t seed, double seconds, std::int64_t least) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  const std::string sources[] = {byte_level_json(), word_piece_json(), small_json()};
  const std::string merges = "#version: 0.2\na b\nab a\n";
  const std::string vocab = R"({"a":0,"b":1,"ab":2,"aba":3,"<|endoftext|>":4})";
  const std::string list = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\n##s\n";
  const Folder folder;
  Damage damage(seed);
  FuzzResult result;
  while (result.tried < least || std::chrono::steady_clock::now() < end) {
    ++result.tried;
    try {
      switch (damage.below(8)) {
        case 0:
          folder.write("vocab.json", damage.below(2) == 0 ? damage(vocab) : vocab);
          folder.write("merges.txt", damage(merges));
          use(*read_vocab_and_merges(folder.file("vocab.json"), folder.file("merges.txt"), std::nullopt));
          break;
        case 1:
          folder.write("vocab.txt", damage(list));
          use(*read_vocab_txt(folder.file("vocab.txt"), std::nullopt));
          break;
        default:
          use(*from_json(damage(sources[damage.below(damage.below(8) == 0 ? 3 : 2)])));
      }
      ++result.loaded;
    } catch (const InputError& error) {
      const std::string_view sentence = error.what();
      TWOBW_ASSERT(sentence.size() < 1000, "a sentence of {} bytes", sentence.size());
    }
  }
  return result;
}

}  // namespace twobw::tokenizer::testing
