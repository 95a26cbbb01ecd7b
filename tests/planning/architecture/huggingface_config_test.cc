// config.json of transformers' models: reading, refusals, writing. Python tests compare with transformers.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "core/base/error.h"
#include "planning/architecture/families.h"
#include "planning/architecture/huggingface/model_config.h"
#include "tests/support/refusal.h"

namespace twobw::architecture::huggingface {
namespace {

using Json = nlohmann::ordered_json;

// As save_pretrained writes them, without unread keys.
Json gpt2() {
  return {{"model_type", "gpt2"}, {"n_layer", 2},      {"n_embd", 12},       {"n_head", 3},
          {"vocab_size", 61},     {"n_positions", 16}, {"n_inner", nullptr}, {"resid_pdrop", 0.1},
          {"embd_pdrop", 0.1},    {"attn_pdrop", 0.1}};
}

Json llama() {
  return {{"model_type", "llama"},    {"num_hidden_layers", 2},        {"hidden_size", 24},
          {"num_attention_heads", 4}, {"num_key_value_heads", 2},      {"intermediate_size", 40},
          {"vocab_size", 61},         {"max_position_embeddings", 64}, {"rms_norm_eps", 1e-5},
          {"rope_theta", 500000.0}};
}

Json bert() {
  return {{"model_type", "bert"},
          {"num_hidden_layers", 2},
          {"hidden_size", 12},
          {"num_attention_heads", 3},
          {"intermediate_size", 20},
          {"vocab_size", 61},
          {"max_position_embeddings", 16},
          {"type_vocab_size", 3},
          {"hidden_dropout_prob", 0.2},
          {"attention_probs_dropout_prob", 0.2}};
}

Json changed(Json json, const std::string& key, const Json& value) {
  json[key] = value;
  return json;
}

Json with_architecture(const Json& json, const char* name) {
  return changed(json, "architectures", Json::array({name}));
}

Json labels(int count) {
  Json names = Json::object();
  for (int i = 0; i < count; ++i) names[std::to_string(i)] = "label " + std::to_string(i);
  return names;
}

// rope_scaling of Llama 3.1, with an original context of 16.
Json llama3_scaling() {
  return {{"rope_type", "llama3"},
          {"factor", 8.0},
          {"low_freq_factor", 1.0},
          {"high_freq_factor", 4.0},
          {"original_max_position_embeddings", 16}};
}

class HuggingFaceConfig : public testing::Test {
 protected:
  HuggingFaceConfig() : folder_(testing::TempDir() + "twobw_huggingface_test_" + std::to_string(getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~HuggingFaceConfig() override { std::filesystem::remove_all(folder_); }

  ModelConfig read(const Json& json) const { return read_text(json.dump()); }
  ModelConfig read_text(const std::string& text) const {
    std::ofstream(folder_ + "/config.json") << text;
    return read_model(folder_).model;
  }
  std::string refusal(const std::string& text) const {
    return refusal_of([&] { read_text(text); });
  }
  std::string refusal(const Json& json) const { return refusal(json.dump()); }
  Config load(const Json& json, std::vector<std::string> overrides = {}) const {
    read(json);
    overrides.push_back("model.from=" + folder_);
    return load_run_config("", overrides);
  }
  std::string load_refusal(const Json& json, const std::vector<std::string>& overrides) const {
    return refusal_of([&] { load(json, overrides); });
  }
  // Expects "has KEY = VALUE; it must MUST".
  void expect_refused(Json json, const std::string& key, const Json& value, const std::string& must) const {
    json[key] = value;
    EXPECT_EQ(refusal(json), fmt::format("{}has {} = {}; it must {}", start_, key, value.dump(), must));
  }

  std::string folder_, start_ = "'" + folder_ + "/config.json' ";
};

TEST_F(HuggingFaceConfig, HeadMayBeOverridden) {
  const auto model = [&](const Json& json, const std::vector<std::string>& overrides) {
    return load(json, overrides).model;
  };
  const Json three =
      changed(with_architecture(bert(), "BertForSequenceClassification"), "id2label", labels(3));
  EXPECT_EQ(model(three, {}).num_labels, 3);
  EXPECT_EQ(model(three, {"model.head=auto"}).head, ModelHead::Classification);
  EXPECT_EQ(model(three, {"model.num_labels=4"}).num_labels, 4);
  EXPECT_EQ(model(three, {"model.head=regression"}).head, ModelHead::Regression);
  EXPECT_EQ(model(three, {"model.head=masked_lm"}).head, ModelHead::MaskedLm);
  EXPECT_FALSE(model(three, {"model.padding=false", "model.dropout=0"}).padding);
  EXPECT_EQ(model(bert(), {"model.head=classification"}).num_labels, 2);
  EXPECT_EQ(model(bert(), {"model.head=classification", "model.num_labels=4"}).num_labels, 4);
  EXPECT_EQ(model(llama(), {"model.head=regression"}).head, ModelHead::Regression);
  EXPECT_EQ(model(llama(), {"model.head=causal_lm"}).head, ModelHead::CausalLm);
  EXPECT_TRUE(model(llama(), {"model.reset_documents=true"}).reset_documents);
  EXPECT_THROW(load(bert(), {"model.num_labels=4"}), InputError);
  EXPECT_THROW(load(three, {"model.head=regression", "model.num_labels=4"}), InputError);
}

TEST_F(HuggingFaceConfig, KeptHeadNamesTheClasses) {
  using Classes = std::vector<std::string>;
  const auto named = [&](const Json& names) {
    return changed(with_architecture(bert(), "BertForSequenceClassification"), "id2label", names);
  };
  const auto classes = [&](const Json& names, const std::vector<std::string>& overrides) {
    return load(named(names), overrides).data.classes;
  };
  const Json two = {{"0", "no, never"}, {"1", "yes"}};
  const Classes names = {"no, never", "yes"};
  EXPECT_EQ(classes(two, {}), names);
  EXPECT_EQ(classes(two, {"data.classes=[\"no, never\", \"yes\"]"}), names);
  EXPECT_EQ(classes(two, {"data.classes=[bad, good]"}), (Classes{"bad", "good"}));
  EXPECT_EQ(classes({{"1", "yes"}, {"0", "no"}}, {}), (Classes{"no", "yes"}));
  // Ignored for another head.
  EXPECT_EQ(classes(two, {"model.num_labels=3"}), Classes());
  EXPECT_EQ(classes(two, {"model.head=regression"}), Classes());
  // Ignored if default, numeric, repeated or incomplete.
  EXPECT_EQ(classes({{"0", "LABEL_0"}, {"1", "LABEL_1"}}, {}), Classes());
  EXPECT_EQ(classes({{"0", "1"}, {"1", "2"}}, {}), Classes());
  EXPECT_EQ(classes({{"0", "a"}, {"1", "a"}}, {}), Classes());
  EXPECT_EQ(classes({{"1", "a"}, {"2", "b"}}, {}), Classes());
  EXPECT_EQ(load_refusal(named({{"0", "no"}, {"1", "yes"}}), {"data.classes=[yes, no]"}),
            "data.classes is [yes, no], but the model in '" + folder_ +
                "/config.json' knows these classes in the order [no, yes]; data.classes must have it, or be "
                "left out");
}

// Both spellings of the kind, and both places.
TEST_F(HuggingFaceConfig, ReadsScaledRotaryEmbedding) {
  for (const char* place : {"rope_scaling", "rope_parameters"}) {
    for (const char* spelling : {"type", "rope_type"}) {
      const auto scaled = [&](Json rope, const char* kind) {
        rope[spelling] = kind;
        return read(changed(llama(), place, rope));
      };
      const ModelConfig linear = scaled(Json::object({{"factor", 4.0}}), "linear");
      EXPECT_EQ(linear.rope_scaling, "linear");
      EXPECT_EQ(linear.rope_factor, 4);
      EXPECT_EQ(scaled(Json::object({{"factor", 2.0}}), "dynamic").rope_original_context, 64);
      const ModelConfig llama3 = scaled(Json::object({{"factor", 8.0},
                                                      {"low_freq_factor", 1.0},
                                                      {"high_freq_factor", 4.0},
                                                      {"original_max_position_embeddings", 16},
                                                      {"rope_theta", 7.0}}),
                                        "llama3");
      EXPECT_EQ(llama3.rope_scaling, "llama3");
      EXPECT_EQ(llama3.rope_original_context, 16);
      EXPECT_EQ(llama3.rope_theta, 7);
      EXPECT_EQ(scaled(Json::object({{"rope_theta", 7.0}}), "default").rope_scaling, "none");
    }
  }
}

// Precedence as in transformers.
TEST_F(HuggingFaceConfig, RotaryEmbeddingInTwoPlaces) {
  const Json linear = {{"rope_type", "linear"}, {"factor", 3.0}};
  const Json both = changed(changed(llama(), "rope_parameters", linear), "rope_scaling", Json::object());
  EXPECT_EQ(read(both).rope_scaling, "linear");
  EXPECT_EQ(read(both).rope_factor, 3);
  EXPECT_EQ(read(changed(both, "rope_parameters", Json::object())).rope_scaling, "none");
  const Json llama3 = llama3_scaling();
  const Json outside =
      changed(changed(llama(), "rope_parameters", llama3), "original_max_position_embeddings", 32);
  EXPECT_EQ(read(outside).rope_original_context, 32);
  EXPECT_EQ(read(changed(outside, "original_max_position_embeddings", nullptr)).rope_original_context, 16);
  EXPECT_EQ(
      refusal(changed(outside, "original_max_position_embeddings", 0)),
      start_ + "has original_max_position_embeddings = 0; it must be a whole number from 1 to 16777216");
}

TEST_F(HuggingFaceConfig, RefusesUnsupportedValuesByKey) {
  expect_refused(gpt2(), "scale_attn_by_inverse_layer_idx", true, "be false");
  expect_refused(gpt2(), "activation_function", "relu", "be one of gelu_new, gelu_pytorch_tanh");
  expect_refused(gpt2(), "n_inner", 40, "be null or 4 n_embd, 48");
  expect_refused(gpt2(), "layer_norm_epsilon", 1e-6, "be 1e-05");
  expect_refused(gpt2(), "model_type", "t5", "be one of gpt2, llama, qwen2, qwen3, bert");
  expect_refused(gpt2(), "n_head", 5, "divide n_embd, which is 12");
  expect_refused(llama(), "attention_bias", true, "be false");
  expect_refused(llama(), "hidden_act", "gelu", "be one of silu, swish");
  expect_refused(llama(), "layer_types", Json::array({"full_attention", "sliding_attention"}),
                 "be full_attention in every layer");
  expect_refused(llama(), "architectures", Json::array({"LlamaForTokenClassification"}),
                 "have one of LlamaForCausalLM, LlamaForSequenceClassification, LlamaModel");
  expect_refused(llama(), "num_key_value_heads", 3, "divide num_attention_heads, which is 4");
  expect_refused(llama(), "head_dim", 5, "be even, for the rotary embedding");
  expect_refused(llama(), "hidden_size", 20, "make attention heads of even size, and that of each is 5");
  expect_refused(llama(), "quantization_config", Json::object({{"bits", 4}}),
                 "be left out: weights are read as they are");
  expect_refused(bert(), "hidden_act", "relu", "be gelu");
  expect_refused(bert(), "position_embedding_type", "relative_key", "be absolute");
  expect_refused(bert(), "is_decoder", true, "be false");
  expect_refused(bert(), "is_causal", true, "be false");
  expect_refused(bert(), "num_attention_heads", 5, "divide hidden_size, which is 12");
  for (const Json& decoder : {gpt2(), llama(), changed(llama(), "model_type", "qwen2")}) {
    expect_refused(decoder, "is_causal", false, "be true");
    EXPECT_EQ(refusal(changed(decoder, "is_causal", true)), "not refused");
  }
  const Json classifier = with_architecture(bert(), "BertForSequenceClassification");
  expect_refused(classifier, "problem_type", "multi_label_classification",
                 "be single_label_classification where the number of labels is 2");
  expect_refused(changed(classifier, "num_labels", 3), "problem_type", "regression",
                 "be single_label_classification where the number of labels is 3");
  expect_refused(changed(classifier, "id2label", labels(3)), "num_labels", 2,
                 "be 3, as many as id2label names");
  EXPECT_EQ(
      refusal(changed(llama(), "rope_scaling", Json::object({{"rope_type", "yarn"}, {"factor", 4.0}}))),
      start_ + "has rope_scaling.rope_type = \"yarn\"; it must be one of default, linear, dynamic, llama3");
  EXPECT_EQ(refusal(changed(llama(), "rope_scaling", Json::object({{"type", "linear"}}))),
            start_ + "lacks the key rope_scaling.factor");
}

TEST_F(HuggingFaceConfig, IsNotTrusted) {
  EXPECT_EQ(refusal(std::string("hello")), start_ + "is not JSON");
  EXPECT_EQ(refusal(std::string("[1]")), start_ + "is not a JSON object; it must be a model's config.json");
  EXPECT_EQ(refusal(std::string(R"({"n_layer": 1, "n_layer": 2})")), start_ + "has 'n_layer' twice");
  EXPECT_EQ(refusal("{\"a\": " + std::string(100'000, '[')), start_ + "is nested too deep");
  EXPECT_EQ(refusal(changed(gpt2(), "vocab_size", nullptr)), start_ + "lacks the key vocab_size");
  expect_refused(gpt2(), "n_layer", 2'000'000'000, "be a whole number from 1 to 4096");
  expect_refused(gpt2(), "n_layer", -1, "be a whole number from 1 to 4096");
  expect_refused(gpt2(), "n_embd", "12", "be a whole number from 1 to 4194304");
  expect_refused(bert(), "type_vocab_size", 0, "be a whole number from 1 to 16777216");
  expect_refused(llama(), "rope_theta", "big", "be a number of at least 0");
  const Json classifier = with_architecture(gpt2(), "GPT2ForSequenceClassification");
  expect_refused(classifier, "num_labels", 2'000'000'000, "be a whole number from 1 to 1048576");
  expect_refused(classifier, "id2label", Json::object(), "name from 1 to 1048576 labels");
  expect_refused(classifier, "id2label", Json::array({"a", "b"}), "be an object");
  expect_refused(classifier, "problem_type", 1, "be text");
}

TEST_F(HuggingFaceConfig, AliasesOfSizesMustAgree) {
  for (const auto& [alias, key] : {std::pair{"num_hidden_layers", "n_layer"},
                                   {"hidden_size", "n_embd"},
                                   {"num_attention_heads", "n_head"},
                                   {"max_position_embeddings", "n_positions"}}) {
    const int size = gpt2()[key];
    EXPECT_EQ(refusal(changed(gpt2(), alias, size)), "not refused");
    EXPECT_EQ(refusal(changed(gpt2(), alias, 6)),
              fmt::format("'{}/config.json' has {} = 6; it must be {}, which is {}, or be left out", folder_,
                          alias, key, size));
  }
}

TEST_F(HuggingFaceConfig, IgnoresWindowsThatNoLayerHas) {
  const Json windows = changed(changed(llama(), "model_type", "qwen2"), "use_sliding_window", true);
  const Json two = Json::array({"full_attention", "full_attention"});
  for (const Json& none :
       {windows, changed(windows, "max_window_layers", 2), changed(windows, "sliding_window", 8),
        changed(changed(windows, "max_window_layers", 0), "sliding_window", nullptr),
        changed(changed(windows, "max_window_layers", 0), "use_sliding_window", false),
        changed(changed(windows, "max_window_layers", 0), "layer_types", two)})
    EXPECT_EQ(refusal(none), "not refused") << none;
  const std::string sentence = start_ +
                               "has use_sliding_window = true; it must be false where "
                               "max_window_layers, 1, is less than "
                               "num_hidden_layers, 2";
  const Json one = changed(windows, "max_window_layers", 1);
  EXPECT_EQ(refusal(one), sentence);  // the default window is 4096 tokens
  EXPECT_EQ(refusal(changed(one, "sliding_window", 8)), sentence);
  EXPECT_EQ(refusal(changed(one, "layer_types", nullptr)), sentence);
}

TEST_F(HuggingFaceConfig, LimitsTheInitializerRange) {
  read(changed(gpt2(), "initializer_range", 100));
  EXPECT_EQ(initializer_range(folder_), 100);
  read(changed(gpt2(), "initializer_range", 1e300));
  EXPECT_THROW(initializer_range(folder_), InputError);
}

TEST_F(HuggingFaceConfig, OverridesMustAgree) {
  const Config config = load(gpt2());
  EXPECT_EQ(config.model.width, 12);
  EXPECT_EQ(config.model.from, folder_);
  EXPECT_EQ(load(gpt2(), {"model.width=12", "model.dropout=0"}).model.dropout, 0);
  const std::string file = "'" + folder_ + "/config.json'";
  EXPECT_EQ(load_refusal(gpt2(), {"model.width=16"}), "model.width is 16 in override 'model.width=16', but " +
                                                          file +
                                                          " makes it 12; it must agree, or be left out");
  // Sequences must not exceed the learned positions.
  EXPECT_EQ(load(gpt2(), {"model.context=8"}).model.context, 8);
  EXPECT_EQ(load(gpt2(), {"model.context=8"}).model.max_positions, 16);
  EXPECT_NE(load_refusal(gpt2(), {"model.max_positions=8", "model.context=8"}), "not refused");
  EXPECT_EQ(load_refusal(gpt2(), {"model.context=17"}),
            "model.max_positions is 16 in " + file + "; it must be 0 or at least model.context, which is 17");
  EXPECT_EQ(load(llama()).model.context, 64);
  EXPECT_EQ(load(llama()).model.max_positions, 0);
  // A saved configuration does not need the folder.
  const std::string saved = folder_ + "/run.yaml", text = to_yaml(load(llama(), {"model.context=8"}));
  std::ofstream(saved) << text;
  EXPECT_EQ(to_yaml(load_run_config(saved, {})), text);
  std::filesystem::remove(folder_ + "/config.json");
  EXPECT_EQ(load_config(saved, {}).model.kv_heads, 2);
}

TEST_F(HuggingFaceConfig, IsInALocalFolder) {
  EXPECT_EQ(refusal_of([] { load_run_config("", {"model.from=meta-llama/Llama-3.2-1B"}); }),
            "model.from is 'meta-llama/Llama-3.2-1B', and no such folder is here; it must be a local "
            "folder with a config.json");
}

// Reading alone does not refuse them.
TEST_F(HuggingFaceConfig, DifferentDropoutRatesNeedAnOverride) {
  const std::string start = start_ + "has ", end = "; model.dropout must be set, to one rate for all places";
  const Json decoder = changed(gpt2(), "attn_pdrop", 0.2),
             encoder = changed(bert(), "classifier_dropout", 0.3);
  Json usual = bert();  // left out
  usual.erase("attention_probs_dropout_prob");
  EXPECT_EQ(load_refusal(decoder, {}), start + "resid_pdrop = 0.1 and attn_pdrop = 0.2" + end);
  EXPECT_EQ(load_refusal(encoder, {}),
            start + "hidden_dropout_prob = 0.2 and classifier_dropout = 0.3" + end);
  EXPECT_EQ(load_refusal(usual, {}),
            start + "hidden_dropout_prob = 0.2 and attention_probs_dropout_prob = 0.1" + end);
  for (const Json& json : {decoder, encoder, usual}) {
    EXPECT_EQ(refusal(json), "not refused");
    EXPECT_EQ(load(json, {"model.dropout=0.4"}).model.dropout, 0.4);
  }
  EXPECT_EQ(load(changed(bert(), "classifier_dropout", 0.2)).model.dropout, 0.2);
  EXPECT_EQ(load(changed(bert(), "classifier_dropout", nullptr)).model.dropout, 0.2);
}

TEST_F(HuggingFaceConfig, WrittenConfigReadsBack) {
  const Json dynamic = {{"type", "dynamic"}, {"factor", 2.0}};
  const Json llama3 = llama3_scaling();
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

TEST_F(HuggingFaceConfig, RunKeepsKeysOfItsSource) {
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

TEST_F(HuggingFaceConfig, RunWritesItsDropout) {
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

TEST_F(HuggingFaceConfig, RunWritesItsHead) {
  ModelConfig config = read(llama());
  const auto written = [&](const Json& source, const TokenIds& ids = {}) {
    return Json(config_json_from(source.dump(), config, "float32", ids));
  };
  const auto architecture = [](const Json& json) { return json["architectures"].dump(); };
  EXPECT_EQ(architecture(written(with_architecture(llama(), "LlamaModel"))), R"(["LlamaForCausalLM"])");
  config.head = ModelHead::Classification;
  config.num_labels = 3;
  // Keeps as many label names, and the padding token.
  Json json = written(changed(changed(llama(), "id2label", labels(3)), "pad_token_id", 7), {.pad = 5});
  EXPECT_EQ(architecture(json), R"(["LlamaForSequenceClassification"])");
  EXPECT_EQ(json["problem_type"].get<std::string>(), "single_label_classification");
  EXPECT_EQ(json["id2label"].dump(), labels(3).dump());
  EXPECT_EQ(json["pad_token_id"].get<int>(), 7);
  json = written(changed(changed(llama(), "id2label", labels(2)), "num_labels", 2), {.pad = 5});
  EXPECT_EQ(json["id2label"].dump(), R"({"0":"LABEL_0","1":"LABEL_1","2":"LABEL_2"})");
  EXPECT_EQ(json["label2id"].dump(), R"({"LABEL_0":0,"LABEL_1":1,"LABEL_2":2})");
  EXPECT_FALSE(json.contains("num_labels"));
  // Class names of the data take precedence.
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
  // BERT needs no padding token.
  config = read(bert());
  config.head = ModelHead::Classification;
  EXPECT_FALSE(written(bert()).contains("pad_token_id"));
  EXPECT_EQ(architecture(written(bert())), R"(["BertForSequenceClassification"])");
}

// Padding must not occur in texts: decoders of transformers classify the token before it.
TEST_F(HuggingFaceConfig, PaddingOfADecoderDoesNotOccurInTexts) {
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
  EXPECT_EQ(padding(changed(none, "eos_token_id", 61), {}), "null");  // beyond the vocabulary
  EXPECT_EQ(padding(changed(gpt2(), "pad_token_id", 0), {.eos = 9}), "0");
  EXPECT_TRUE(config_json(config, "float32", {})["pad_token_id"].is_null());
  EXPECT_EQ(config_json(config, "float32", {.eos = 9})["pad_token_id"].dump(), "9");
}

}  // namespace
}  // namespace twobw::architecture::huggingface
