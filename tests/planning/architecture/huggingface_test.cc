// Models of transformers as configurations, and what is refused of them.
#include <gtest/gtest.h>

#include <random>

#include "planning/architecture/families.h"
#include "planning/architecture/huggingface/model_config.h"
#include "tests/planning/architecture/huggingface_configs.h"

namespace twobw::architecture::huggingface {
namespace {

TEST_F(HuggingFaceConfig, OfAHeadThatTellsOfSequences) {
  for (const auto& [json, name] :
       {std::pair{gpt2(), "GPT2ForSequenceClassification"},
        std::pair{llama(), "LlamaForSequenceClassification"},
        std::pair{changed(llama(), "model_type", "qwen2"), "Qwen2ForSequenceClassification"},
        std::pair{changed(llama(), "model_type", "qwen3"), "Qwen3ForSequenceClassification"},
        std::pair{bert(), "BertForSequenceClassification"}}) {
    const Json classifier = with_architecture(json, name);
    EXPECT_EQ(read(classifier).head, ModelHead::Classification);
    EXPECT_EQ(read(classifier).labels, 2);
    EXPECT_EQ(read(changed(classifier, "num_labels", 5)).labels, 5);
    EXPECT_EQ(read(changed(classifier, "id2label", labels(3))).labels, 3);
    const Json regression = changed(classifier, "id2label", labels(1));
    EXPECT_EQ(read(regression).head, ModelHead::Regression);
    EXPECT_EQ(read(changed(regression, "problem_type", "regression")).head, ModelHead::Regression);
  }
  // Of another architecture they mean nothing.
  EXPECT_EQ(read(changed(bert(), "id2label", labels(3))).head, ModelHead::Auto);
}

// What the folder has is taken unless another head is asked for.
TEST_F(HuggingFaceConfig, HeadsMayBeChanged) {
  const auto load = [&](const Json& json, std::vector<std::string> overrides) {
    read(json);
    overrides.push_back("model.from=" + folder_);
    return load_run_config("", overrides).model;
  };
  const Json three =
      changed(with_architecture(bert(), "BertForSequenceClassification"), "id2label", labels(3));
  EXPECT_EQ(load(three, {}).labels, 3);
  EXPECT_EQ(load(three, {"model.head=auto"}).head, ModelHead::Classification);
  EXPECT_EQ(load(three, {"model.labels=4"}).labels, 4);
  EXPECT_EQ(load(three, {"model.head=regression"}).head, ModelHead::Regression);
  EXPECT_EQ(load(three, {"model.head=masked_lm"}).head, ModelHead::MaskedLm);
  EXPECT_FALSE(load(three, {"model.padding=false", "model.dropout=0"}).padding);
  EXPECT_EQ(load(bert(), {"model.head=classification"}).labels, 2);
  EXPECT_EQ(load(bert(), {"model.head=classification", "model.labels=4"}).labels, 4);
  EXPECT_EQ(load(llama(), {"model.head=regression"}).head, ModelHead::Regression);
  EXPECT_EQ(load(llama(), {"model.head=causal_lm"}).head, ModelHead::CausalLm);
  EXPECT_TRUE(load(llama(), {"model.reset_documents=true"}).reset_documents);
  EXPECT_THROW(load(bert(), {"model.labels=4"}), InputError);
  EXPECT_THROW(load(three, {"model.head=regression", "model.labels=4"}), InputError);
}

// Their numbers mean something to it.
TEST_F(HuggingFaceConfig, AHeadThatIsKeptNamesTheClassesOfTheData) {
  using Classes = std::vector<std::string>;
  const auto load = [&](const Json& names, std::vector<std::string> overrides) {
    read(changed(with_architecture(bert(), "BertForSequenceClassification"), "id2label", names));
    overrides.push_back("model.from=" + folder_);
    return load_run_config("", overrides).data.classes;
  };
  const Json two = {{"0", "no, never"}, {"1", "yes"}};
  const Classes names = {"no, never", "yes"};
  EXPECT_EQ(load(two, {}), names);
  EXPECT_EQ(load(two, {"data.classes=[\"no, never\", \"yes\"]"}), names);
  EXPECT_EQ(load(two, {"data.classes=[bad, good]"}), (Classes{"bad", "good"}));
  EXPECT_EQ(load({{"1", "yes"}, {"0", "no"}}, {}), (Classes{"no", "yes"}));
  // Of another head they mean nothing.
  EXPECT_EQ(load(two, {"model.labels=3"}), Classes());
  EXPECT_EQ(load(two, {"model.head=regression"}), Classes());
  // Nor where they are no names that a file's labels could be told by.
  EXPECT_EQ(load({{"0", "LABEL_0"}, {"1", "LABEL_1"}}, {}), Classes());
  EXPECT_EQ(load({{"0", "1"}, {"1", "2"}}, {}), Classes());
  EXPECT_EQ(load({{"0", "a"}, {"1", "a"}}, {}), Classes());
  EXPECT_EQ(load({{"1", "a"}, {"2", "b"}}, {}), Classes());
  try {
    load({{"0", "no"}, {"1", "yes"}}, {"data.classes=[yes, no]"});
    FAIL() << "not refused";
  } catch (const InputError& error) {
    EXPECT_EQ(error.what(), "data.classes is [yes, no], but the model in '" + folder_ +
                                "/config.json' knows these classes in the order [no, yes]; data.classes must "
                                "have it, or be left out");
  }
}

TEST_F(HuggingFaceConfig, PromisesTheHeadOfItsArchitecture) {
  const auto promised = [&](const Json& json, const ModelConfig& config) {
    read(json);
    return promises_head(folder_, config);
  };
  const ModelConfig language, two = {.head = ModelHead::Classification},
                              three = {.head = ModelHead::Classification, .labels = 3},
                              number = {.head = ModelHead::Regression};
  const Json classifier =
      changed(with_architecture(bert(), "BertForSequenceClassification"), "id2label", labels(3));
  EXPECT_TRUE(promised(classifier, three));
  EXPECT_FALSE(promised(classifier, two));
  EXPECT_FALSE(promised(classifier, number));
  EXPECT_FALSE(promised(classifier, language));
  for (const Json& json : {bert(), with_architecture(bert(), "BertForMaskedLM"),
                           with_architecture(bert(), "BertForPreTraining")}) {
    EXPECT_TRUE(promised(json, language));
    EXPECT_FALSE(promised(json, two));
  }
  const ModelConfig next = {.next_sentence = true};
  EXPECT_TRUE(promised(with_architecture(bert(), "BertForPreTraining"), next));
  EXPECT_FALSE(promised(with_architecture(bert(), "BertForMaskedLM"), next));
  EXPECT_FALSE(promised(with_architecture(bert(), "BertModel"), next));
  EXPECT_FALSE(promised(with_architecture(bert(), "BertModel"), language));
  EXPECT_FALSE(promised(with_architecture(gpt2(), "GPT2Model"), language));
}

// Both spellings of the kind, and both places.
TEST_F(HuggingFaceConfig, OfAScaledRotaryEmbedding) {
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

// As transformers takes them where they are in two places.
TEST_F(HuggingFaceConfig, OfARotaryEmbeddingThatIsToldTwice) {
  const Json linear = {{"rope_type", "linear"}, {"factor", 3.0}};
  const Json both = changed(changed(llama(), "rope_parameters", linear), "rope_scaling", Json::object());
  EXPECT_EQ(read(both).rope_scaling, "linear");
  EXPECT_EQ(read(both).rope_factor, 3);
  EXPECT_EQ(read(changed(both, "rope_parameters", Json::object())).rope_scaling, "none");
  const Json llama3 = {{"rope_type", "llama3"},
                       {"factor", 8.0},
                       {"low_freq_factor", 1.0},
                       {"high_freq_factor", 4.0},
                       {"original_max_position_embeddings", 16}};
  const Json outside =
      changed(changed(llama(), "rope_parameters", llama3), "original_max_position_embeddings", 32);
  EXPECT_EQ(read(outside).rope_original_context, 32);
  EXPECT_EQ(read(changed(outside, "original_max_position_embeddings", nullptr)).rope_original_context, 16);
  EXPECT_EQ(refusal(changed(outside, "original_max_position_embeddings", 0)),
            "'" + folder_ +
                "/config.json' has original_max_position_embeddings = 0; it must be a whole number " +
                "from 1 to 16777216");
}

TEST_F(HuggingFaceConfig, RefusesWhatIsNotComputedByKeyValueAndWhatIsAllowed) {
  const std::string start = "'" + folder_ + "/config.json' ";
  EXPECT_EQ(refusal(changed(gpt2(), "scale_attn_by_inverse_layer_idx", true)),
            start + "has scale_attn_by_inverse_layer_idx = true; it must be false");
  EXPECT_EQ(refusal(changed(gpt2(), "activation_function", "relu")),
            start + "has activation_function = \"relu\"; it must be one of gelu_new, gelu_pytorch_tanh");
  EXPECT_EQ(refusal(changed(gpt2(), "n_inner", 40)),
            start + "has n_inner = 40; it must be null or 4 n_embd, 48");
  EXPECT_EQ(refusal(changed(gpt2(), "layer_norm_epsilon", 1e-6)),
            start + "has layer_norm_epsilon = 1e-06; it must be 1e-05");
  EXPECT_EQ(refusal(changed(llama(), "attention_bias", true)),
            start + "has attention_bias = true; it must be false");
  EXPECT_EQ(refusal(changed(llama(), "hidden_act", "gelu")),
            start + "has hidden_act = \"gelu\"; it must be one of silu, swish");
  EXPECT_EQ(
      refusal(changed(llama(), "layer_types", Json::array({"full_attention", "sliding_attention"}))),
      start +
          "has layer_types = [\"full_attention\",\"sliding_attention\"]; it must be full_attention in every "
          "layer");
  EXPECT_EQ(
      refusal(changed(llama(), "rope_scaling", Json::object({{"rope_type", "yarn"}, {"factor", 4.0}}))),
      start + "has rope_scaling.rope_type = \"yarn\"; it must be one of default, linear, dynamic, llama3");
  EXPECT_EQ(refusal(changed(llama(), "rope_scaling", Json::object({{"type", "linear"}}))),
            start + "lacks the key rope_scaling.factor");
  EXPECT_EQ(refusal(changed(gpt2(), "model_type", "t5")),
            start + "has model_type = \"t5\"; it must be one of gpt2, llama, qwen2, qwen3, bert");
  EXPECT_EQ(refusal(with_architecture(llama(), "LlamaForTokenClassification")),
            start +
                "has architectures = [\"LlamaForTokenClassification\"]; it must have one of "
                "LlamaForCausalLM, LlamaForSequenceClassification, LlamaModel");
  EXPECT_EQ(refusal(changed(bert(), "hidden_act", "relu")),
            start + "has hidden_act = \"relu\"; it must be gelu");
  EXPECT_EQ(refusal(changed(bert(), "position_embedding_type", "relative_key")),
            start + "has position_embedding_type = \"relative_key\"; it must be absolute");
  EXPECT_EQ(refusal(changed(bert(), "is_decoder", true)), start + "has is_decoder = true; it must be false");
  // Attention to both sides is a BERT's, and to one side a decoder's.
  EXPECT_EQ(refusal(changed(bert(), "is_causal", true)), start + "has is_causal = true; it must be false");
  for (const Json& decoder : {gpt2(), llama(), changed(llama(), "model_type", "qwen2")}) {
    EXPECT_EQ(refusal(changed(decoder, "is_causal", false)),
              start + "has is_causal = false; it must be true");
    EXPECT_EQ(refusal(changed(decoder, "is_causal", true)), "not refused");
  }
  EXPECT_EQ(refusal(changed(gpt2(), "n_head", 5)),
            start + "has n_head = 5; it must divide n_embd, which is 12");
  EXPECT_EQ(refusal(changed(bert(), "num_attention_heads", 5)),
            start + "has num_attention_heads = 5; it must divide hidden_size, which is 12");
  EXPECT_EQ(refusal(changed(llama(), "num_key_value_heads", 3)),
            start + "has num_key_value_heads = 3; it must divide num_attention_heads, which is 4");
  EXPECT_EQ(refusal(changed(llama(), "head_dim", 5)),
            start + "has head_dim = 5; it must be even, for the rotary embedding");
  EXPECT_EQ(refusal(changed(llama(), "hidden_size", 20)),
            start + "has hidden_size = 20; it must make attention heads of even size, and that of each is 5");
  const Json classifier = with_architecture(bert(), "BertForSequenceClassification");
  EXPECT_EQ(refusal(changed(classifier, "problem_type", "multi_label_classification")),
            start +
                "has problem_type = \"multi_label_classification\"; it must be single_label_classification "
                "where the number of labels is 2");
  EXPECT_EQ(refusal(changed(changed(classifier, "problem_type", "regression"), "num_labels", 3)),
            start +
                "has problem_type = \"regression\"; it must be single_label_classification where the number "
                "of labels is 3");
  EXPECT_EQ(refusal(changed(changed(classifier, "id2label", labels(3)), "num_labels", 2)),
            start + "has num_labels = 2; it must be 3, as many as id2label names");
  EXPECT_EQ(
      refusal(changed(llama(), "quantization_config", Json::object({{"bits", 4}}))),
      start + "has quantization_config = {\"bits\":4}; it must be left out: weights are read as they are");
}

TEST_F(HuggingFaceConfig, IsNotTrusted) {
  const std::string start = "'" + folder_ + "/config.json' ";
  EXPECT_EQ(refusal(std::string("hello")), start + "is not JSON");
  EXPECT_EQ(refusal(std::string("[1]")), start + "is no JSON object; it must be a model's config.json");
  EXPECT_EQ(refusal(std::string(R"({"n_layer": 1, "n_layer": 2})")), start + "has 'n_layer' twice");
  EXPECT_EQ(refusal("{\"a\": " + std::string(100'000, '[')), start + "is nested too deep");
  EXPECT_EQ(refusal(changed(gpt2(), "n_layer", 2'000'000'000)),
            start + "has n_layer = 2000000000; it must be a whole number from 1 to 4096");
  EXPECT_EQ(refusal(changed(gpt2(), "n_layer", -1)),
            start + "has n_layer = -1; it must be a whole number from 1 to 4096");
  EXPECT_EQ(refusal(changed(gpt2(), "n_embd", "12")),
            start + "has n_embd = \"12\"; it must be a whole number from 1 to 4194304");
  EXPECT_EQ(refusal(changed(gpt2(), "vocab_size", nullptr)), start + "lacks the key vocab_size");
  const Json classifier = with_architecture(gpt2(), "GPT2ForSequenceClassification");
  EXPECT_EQ(refusal(changed(classifier, "num_labels", 2'000'000'000)),
            start + "has num_labels = 2000000000; it must be a whole number from 1 to 1048576");
  EXPECT_EQ(refusal(changed(classifier, "id2label", Json::object())),
            start + "has id2label = {}; it must name from 1 to 1048576 labels");
  EXPECT_EQ(refusal(changed(classifier, "id2label", Json::array({"a", "b"}))),
            start + "has id2label = [\"a\",\"b\"]; it must be an object");
  EXPECT_EQ(refusal(changed(classifier, "problem_type", 1)), start + "has problem_type = 1; it must be text");
  EXPECT_EQ(refusal(changed(bert(), "type_vocab_size", 0)),
            start + "has type_vocab_size = 0; it must be a whole number from 1 to 16777216");
  EXPECT_EQ(refusal(changed(llama(), "rope_theta", "big")),
            start + "has rope_theta = \"big\"; it must be a number of at least 0");
}

TEST_F(HuggingFaceConfig, SizesOfAGpt2HaveTwoNamesThatAgree) {
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

TEST_F(HuggingFaceConfig, WindowsThatNoLayerHasAreLeftAlone) {
  const Json windows = changed(changed(llama(), "model_type", "qwen2"), "use_sliding_window", true);
  const Json two = Json::array({"full_attention", "full_attention"});
  for (const Json& none :
       {windows, changed(windows, "max_window_layers", 2), changed(windows, "sliding_window", 8),
        changed(changed(windows, "max_window_layers", 0), "sliding_window", nullptr),
        changed(changed(windows, "max_window_layers", 0), "use_sliding_window", false),
        changed(changed(windows, "max_window_layers", 0), "layer_types", two)})
    EXPECT_EQ(refusal(none), "not refused") << none;
  const std::string sentence = "'" + folder_ +
                               "/config.json' has use_sliding_window = true; it must be false where "
                               "max_window_layers, 1, is less than "
                               "num_hidden_layers, 2";
  const Json one = changed(windows, "max_window_layers", 1);
  EXPECT_EQ(refusal(one), sentence);  // a window is 4096 tokens where nothing is said
  EXPECT_EQ(refusal(changed(one, "sliding_window", 8)), sentence);
  EXPECT_EQ(refusal(changed(one, "layer_types", nullptr)), sentence);
}

TEST_F(HuggingFaceConfig, NewWeightsAreNotTooLarge) {
  const auto range = [&](const Json& value) -> std::string {
    read(changed(gpt2(), "initializer_range", value));
    try {
      return fmt::format("{}", initializer_range(folder_));
    } catch (const InputError& error) {
      return error.what();
    }
  };
  EXPECT_EQ(range(nullptr), "0.02");
  EXPECT_EQ(range(100), "100");
  EXPECT_EQ(range(1e300),
            "'" + folder_ + "/config.json' has initializer_range = 1e+300; it must be at most 100");
}

// Whatever a file says, it is read or refused in one sentence.
TEST_F(HuggingFaceConfig, FlippedBytesAreReadOrRefused) {
  std::mt19937 random(7);
  const Json three =
      changed(with_architecture(bert(), "BertForSequenceClassification"), "id2label", labels(3));
  for (const Json& json : {gpt2(), llama(), bert(), three}) {
    for (int round = 0; round < 1000; ++round) {
      std::string text = json.dump();
      for (int i = 0; i <= round % 3; ++i)
        text[random() % text.size()] ^= static_cast<char>(1 + random() % 127);
      try {
        read_text(text);
      } catch (const InputError& error) {
        EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
      }
    }
  }
}

TEST_F(HuggingFaceConfig, IsInALocalFolder) {
  try {
    load_run_config("", {"model.from=meta-llama/Llama-3.2-1B"});
    FAIL() << "not refused";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "model.from is 'meta-llama/Llama-3.2-1B', and no such folder is here; it must be a local "
                 "folder with a config.json");
  }
}

TEST_F(HuggingFaceConfig, MustAgreeWithWhatIsSetBesides) {
  read(gpt2());
  const auto load = [&](std::vector<std::string> overrides) {
    overrides.push_back("model.from=" + folder_);
    return load_run_config("", overrides);
  };
  EXPECT_EQ(load({}).model.width, 12);
  EXPECT_EQ(load({}).model.from, folder_);
  EXPECT_EQ(load({"model.width=12", "model.dropout=0"}).model.dropout, 0);
  try {
    load({"model.width=16"});
    FAIL() << "not refused";
  } catch (const InputError& error) {
    EXPECT_EQ(error.what(), "model.width is 16 in override 'model.width=16', but '" + folder_ +
                                "/config.json' makes it 12; it must agree, or be left out");
  }
  // Sequences may be shorter than there are learned positions, and not longer.
  EXPECT_EQ(load({"model.context=8"}).model.context, 8);
  EXPECT_EQ(load({"model.context=8"}).model.positions, 16);
  EXPECT_THROW(load({"model.positions=8", "model.context=8"}), InputError);
  try {
    load({"model.context=17"});
    FAIL() << "not refused";
  } catch (const InputError& error) {
    EXPECT_EQ(error.what(), "model.positions is 16 in '" + folder_ +
                                "/config.json'; it must be 0 or at least model.context, which is 17");
  }
  read(llama());
  EXPECT_EQ(load({"model.context=8"}).model.context, 8);
  EXPECT_EQ(load({}).model.context, 64);
  EXPECT_EQ(load({}).model.positions, 0);
  // What a run has written is read without the folder.
  const std::string file = folder_ + "/run.yaml";
  std::ofstream(file) << to_yaml(load({"model.context=8"}));
  EXPECT_EQ(to_yaml(load_run_config(file, {})), to_yaml(load({"model.context=8"})));
  std::filesystem::remove(folder_ + "/config.json");
  EXPECT_EQ(load_config(file, {}).model.kv_heads, 2);
}

// What only reads a model has no use for them.
TEST_F(HuggingFaceConfig, RatesOfDropoutThatDifferAreSettledByTheRun) {
  const auto load = [&](const Json& json, std::vector<std::string> overrides) -> std::string {
    EXPECT_NE(refusal(json), "");
    overrides.push_back("model.from=" + folder_);
    try {
      return fmt::format("{}", load_run_config("", overrides).model.dropout);
    } catch (const InputError& error) {
      return error.what();
    }
  };
  const std::string start = "'" + folder_ + "/config.json' has ",
                    end = "; model.dropout must be set, to one rate for all places";
  const Json decoder = changed(gpt2(), "attn_pdrop", 0.2),
             encoder = changed(bert(), "classifier_dropout", 0.3);
  EXPECT_EQ(load(decoder, {}), start + "resid_pdrop = 0.1 and attn_pdrop = 0.2" + end);
  EXPECT_EQ(load(encoder, {}), start + "hidden_dropout_prob = 0.2 and classifier_dropout = 0.3" + end);
  Json usual = bert();  // where it is left out
  usual.erase("attention_probs_dropout_prob");
  EXPECT_EQ(load(usual, {}),
            start + "hidden_dropout_prob = 0.2 and attention_probs_dropout_prob = 0.1" + end);
  for (const Json& json : {decoder, encoder, usual}) {
    EXPECT_EQ(refusal(json), "not refused");
    EXPECT_EQ(load(json, {"model.dropout=0.4"}), "0.4");
  }
  EXPECT_EQ(load(changed(bert(), "classifier_dropout", 0.2), {}), "0.2");
  EXPECT_EQ(load(changed(bert(), "classifier_dropout", nullptr), {}), "0.2");
}

}  // namespace
}  // namespace twobw::architecture::huggingface
