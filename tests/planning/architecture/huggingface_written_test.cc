// config.json as an export and a run write it.
#include "tests/planning/architecture/huggingface_configs.h"

namespace twobw::architecture::huggingface {
namespace {

TEST_F(HuggingFaceConfig, ComesBackFromWhatIsWritten) {
  const Json dynamic = {{"type", "dynamic"}, {"factor", 2.0}};
  const Json llama3 = {{"rope_type", "llama3"},
                       {"factor", 8.0},
                       {"low_freq_factor", 1.0},
                       {"high_freq_factor", 4.0},
                       {"original_max_position_embeddings", 16}};
  for (const Json& json :
       {gpt2(), changed(gpt2(), "tie_word_embeddings", false), llama(),
        changed(llama(), "model_type", "qwen2"), changed(llama(), "model_type", "qwen3"),
        changed(llama(), "rope_scaling", dynamic), changed(llama(), "rope_scaling", llama3), bert(),
        changed(bert(), "tie_word_embeddings", false),
        with_architecture(bert(), "BertForSequenceClassification"),
        changed(with_architecture(gpt2(), "GPT2ForSequenceClassification"), "num_labels", 1),
        changed(with_architecture(llama(), "LlamaForSequenceClassification"), "num_labels", 11)}) {
    Config before, after;
    before.model = read(json);
    after.model = read(config_json(before.model, "float32", {.eos = 3}));
    EXPECT_EQ(to_yaml(before), to_yaml(after)) << json;
  }
}

TEST_F(HuggingFaceConfig, OfARunKeepsWhatItStartedFromSays) {
  ModelConfig config = read(llama());
  const Json source =
      changed(changed(llama(), "eos_token_id", Json::array({2, 7})), "torch_dtype", "float32");
  config.context = 16;
  Json json = config_json_from(source.dump(), config, "bfloat16", {});
  EXPECT_EQ(json["eos_token_id"].dump(), "[2,7]");
  EXPECT_EQ(json["torch_dtype"].get<std::string>(), "bfloat16");
  EXPECT_EQ(json["max_position_embeddings"].get<int>(), 64);
  config.context = 128;
  json = config_json_from(source.dump(), config, "bfloat16", {});
  EXPECT_EQ(json["max_position_embeddings"].get<int>(), 128);
}

TEST_F(HuggingFaceConfig, OfARunSaysWhichDropoutItHad) {
  const Json encoder = changed(bert(), "classifier_dropout", 0.3);
  for (const Json& source : {gpt2(), encoder, changed(bert(), "classifier_dropout", nullptr), llama()}) {
    Config before, after;
    before.model = read(source);
    if (before.model.family != "llama") before.model.dropout = 0.25;
    const Json json = config_json_from(source.dump(), before.model, "float32", {});
    after.model = read(json);
    EXPECT_EQ(to_yaml(before), to_yaml(after)) << source;
    for (const char* key : {"embd_pdrop", "attn_pdrop", "attention_probs_dropout_prob"}) {
      EXPECT_TRUE(!source.contains(key) || json[key].get<double>() == 0.25) << key;
    }
    EXPECT_TRUE(!source.contains("classifier_dropout") || json["classifier_dropout"].is_null());
  }
}

// More positions are no other angles.
TEST_F(HuggingFaceConfig, OfARunKeepsTheOriginalContext) {
  const Json llama3 = {
      {"rope_type", "llama3"}, {"factor", 8.0}, {"low_freq_factor", 1.0}, {"high_freq_factor", 4.0}};
  const char* const original = "original_max_position_embeddings";
  for (const char* place : {"rope_scaling", "rope_parameters"}) {
    for (const Json& source : {changed(llama(), place, llama3), changed(llama(), original, 32),
                               changed(llama(), place, changed(llama3, original, 32))}) {
      const Json scaled = source.contains(place) ? source : changed(source, place, llama3);
      Config before, after;
      before.model = read(scaled);
      before.model.context = 128;
      after.model = read(Json(config_json_from(scaled.dump(), before.model, "float32", {})));
      EXPECT_EQ(to_yaml(before), to_yaml(after)) << scaled;
    }
  }
}

TEST_F(HuggingFaceConfig, OfARunSaysWhichHeadItHas) {
  ModelConfig config = read(llama());
  const auto written = [&](const Json& source, const TokenIds& ids = {}) {
    return Json(config_json_from(source.dump(), config, "float32", ids));
  };
  const auto architecture = [](const Json& json) { return json["architectures"].dump(); };
  EXPECT_EQ(architecture(written(with_architecture(llama(), "LlamaModel"))), R"(["LlamaForCausalLM"])");
  config.head = ModelHead::Classification;
  config.labels = 3;
  // Names of labels are kept where there are as many, and so is a token of padding.
  Json json = written(changed(changed(llama(), "id2label", labels(3)), "pad_token_id", 7), {.pad = 5});
  EXPECT_EQ(architecture(json), R"(["LlamaForSequenceClassification"])");
  EXPECT_EQ(json["problem_type"].get<std::string>(), "single_label_classification");
  EXPECT_EQ(json["id2label"].dump(), labels(3).dump());
  EXPECT_EQ(json["pad_token_id"].get<int>(), 7);
  json = written(changed(changed(llama(), "id2label", labels(2)), "num_labels", 2), {.pad = 5});
  EXPECT_EQ(json["id2label"].dump(), R"({"0":"LABEL_0","1":"LABEL_1","2":"LABEL_2"})");
  EXPECT_EQ(json["label2id"].dump(), R"({"LABEL_0":0,"LABEL_1":1,"LABEL_2":2})");
  EXPECT_FALSE(json.contains("num_labels"));
  // The data's names come first.
  const Json source = changed(llama(), "id2label", labels(3));
  json = config_json_from(source.dump(), config, "float32", {}, {"no", "perhaps", "yes"});
  EXPECT_EQ(json["id2label"].dump(), R"({"0":"no","1":"perhaps","2":"yes"})");
  EXPECT_EQ(json["label2id"].dump(), R"({"no":0,"perhaps":1,"yes":2})");
  EXPECT_EQ(config_json(config, "float32", {}, {"no", "perhaps", "yes"})["id2label"].dump(),
            R"({"0":"no","1":"perhaps","2":"yes"})");
  json = written(changed(changed(llama(), "id2label", labels(2)), "num_labels", 2), {.pad = 5});
  EXPECT_EQ(json["pad_token_id"].get<int>(), 5);
  config.head = ModelHead::Regression;
  json = written(llama());
  EXPECT_EQ(json["problem_type"].get<std::string>(), "regression");
  EXPECT_EQ(json["id2label"].size(), 1u);
  EXPECT_TRUE(json["pad_token_id"].is_null());
  // BERT has no need of it, and what is not said is not set.
  config = read(bert());
  config.head = ModelHead::Classification;
  EXPECT_FALSE(written(bert()).contains("pad_token_id"));
  EXPECT_EQ(architecture(written(bert())), R"(["BertForSequenceClassification"])");
}

// A token that texts have is no padding: their decoders would not take it where it is the last.
TEST_F(HuggingFaceConfig, PaddingOfADecoderIsNoTokenOfATextThatGoesOn) {
  ModelConfig config = read(gpt2());
  config.head = ModelHead::Classification;
  const auto padding = [&](const Json& source, const TokenIds& ids) {
    return config_json_from(source.dump(), config, "float32", ids)["pad_token_id"].dump();
  };
  const Json none = changed(gpt2(), "pad_token_id", nullptr);
  EXPECT_EQ(padding(none, {}), "null");
  EXPECT_EQ(padding(none, {.eos = 9}), "9");
  EXPECT_EQ(padding(none, {.eos = 9, .pad = 5}), "5");
  EXPECT_EQ(padding(changed(none, "eos_token_id", 60), {.eos = 9}), "60");
  EXPECT_EQ(padding(changed(none, "eos_token_id", Json::array({7, 2})), {}), "7");
  EXPECT_EQ(padding(changed(none, "eos_token_id", Json::array()), {}), "null");
  EXPECT_EQ(padding(changed(none, "eos_token_id", 61), {}), "null");  // the model does not know it
  EXPECT_EQ(padding(changed(gpt2(), "pad_token_id", 0), {.eos = 9}), "0");
  EXPECT_TRUE(config_json(config, "float32", {})["pad_token_id"].is_null());
  EXPECT_EQ(config_json(config, "float32", {.eos = 9})["pad_token_id"].dump(), "9");
}

}  // namespace
}  // namespace twobw::architecture::huggingface
