#include "text/tokenizer/readers.h"

#include <gtest/gtest.h>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include "core/base/error.h"
#include "tests/text/tokenizer/testing.h"
#include "text/tokenizer/utf8.h"

namespace twobw::tokenizer {
namespace {

using testing::encoded;
using testing::tokens_of;
using Tokens = std::vector<std::string>;

// A model learned from a few sentences, and the library's own view of it.
struct Trained {
  testing::Folder folder;
  sentencepiece::SentencePieceProcessor library;
  std::unique_ptr<Tokenizer> ours;
};

std::unique_ptr<Trained> train(const std::string& kind, const std::string& options) {
  auto trained = std::make_unique<Trained>();
  std::string text;
  for (int i = 0; i < 20; ++i) text += testing::kProse;
  trained->folder.write("text.txt", text);
  const auto status = sentencepiece::SentencePieceTrainer::Train(
      "--minloglevel=2 --hard_vocab_limit=false --byte_fallback=true --vocab_size=400 --model_type=" + kind +
      " --input=" + trained->folder.file("text.txt") +
      " --model_prefix=" + trained->folder.file("tokenizer") + " " + options);
  EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_TRUE(trained->library.Load(trained->folder.file("tokenizer.model")).ok());
  trained->ours = load_tokenizer(trained->folder.path());
  return trained;
}

std::vector<Id> by_library(const Trained& trained, const std::string& text) {
  std::vector<int> ids;
  EXPECT_TRUE(trained.library.Encode(text, &ids).ok());
  return {ids.begin(), ids.end()};
}

const std::string kAsLlama = "--normalization_rule_name=identity --remove_extra_whitespaces=false";

TEST(Sentencepiece, GivesTheIdsOfTheLibrary) {
  for (const std::string kind : {"bpe", "unigram"}) {
    for (const std::string& options : {kAsLlama, std::string()}) {
      const auto trained = train(kind, options);
      for (std::uint32_t seed = 0; seed < 40; ++seed) {
        const std::string text = "x" + replace_invalid(testing::wild_text(seed, 30)) + testing::kProse;
        ASSERT_EQ(encoded(*trained->ours, text), by_library(*trained, text)) << kind << options;
      }
    }
  }
}

TEST(Sentencepiece, RecognizesControlPiecesAndAddsOneSpace) {
  const auto trained = train("bpe", kAsLlama);
  EXPECT_EQ(tokens_of(*trained->ours, "the</s>the"), (Tokens{"\u2581the", "</s>", "t", "he"}));
  EXPECT_EQ(tokens_of(*trained->ours, " the"), tokens_of(*trained->ours, "the"));
  std::vector<Id> ids;
  trained->ours->encode_sequence("the", ids);
  EXPECT_EQ(ids.front(), trained->ours->special().bos);
  EXPECT_EQ(trained->ours->decode(ids, true), "the");
}

TEST(Sentencepiece, RefusesInvalidModels) {
  const testing::Folder folder;
  for (const std::string& text : {std::string(), std::string("no model"), std::string(100, '\xFF')}) {
    folder.write("tokenizer.model", text);
    EXPECT_THROW(load_tokenizer(folder.path()), InputError);
  }
}

}  // namespace
}  // namespace twobw::tokenizer
