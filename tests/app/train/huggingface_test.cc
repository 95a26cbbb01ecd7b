// In from Hugging Face's layout and out again: every bit as it was, however the files and stages are cut.
#include "app/train/huggingface.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "app/train/model_files.h"
#include "core/base/error.h"
#include "engine/checkpoint/pretrained.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/models/model.h"
#include "engine/weights/double_buffer.h"
#include "planning/architecture/huggingface/model_config.h"

namespace twobw::train {
namespace {

using at::Tensor;
using checkpoint::NamedTensor;
using Json = nlohmann::ordered_json;
using Names = std::vector<std::string>;
using Shape = std::vector<std::int64_t>;

struct Theirs {
  Json config;
  std::vector<std::pair<std::string, Shape>> tensors;  // as transformers saves them
};

Theirs gpt2(bool tied) {
  Theirs all{.config = {{"model_type", "gpt2"},
                        {"n_layer", 2},
                        {"n_embd", 12},
                        {"n_head", 3},
                        {"vocab_size", 17},
                        {"n_positions", 8},
                        {"tie_word_embeddings", tied}}};
  all.tensors = {{"transformer.wte.weight", {17, 12}},
                 {"transformer.wpe.weight", {8, 12}},
                 {"transformer.ln_f.weight", {12}},
                 {"transformer.ln_f.bias", {12}}};
  if (!tied) all.tensors.push_back({"lm_head.weight", {17, 12}});
  for (const char* block : {"transformer.h.0.", "transformer.h.1."}) {
    const std::vector<std::pair<std::string, Shape>> inside = {{"ln_1.weight", {12}},
                                                               {"ln_1.bias", {12}},
                                                               {"attn.c_attn.weight", {12, 36}},
                                                               {"attn.c_attn.bias", {36}},
                                                               {"attn.c_proj.weight", {12, 12}},
                                                               {"attn.c_proj.bias", {12}},
                                                               {"ln_2.weight", {12}},
                                                               {"ln_2.bias", {12}},
                                                               {"mlp.c_fc.weight", {12, 48}},
                                                               {"mlp.c_fc.bias", {48}},
                                                               {"mlp.c_proj.weight", {48, 12}},
                                                               {"mlp.c_proj.bias", {12}}};
    for (const auto& [name, shape] : inside) all.tensors.emplace_back(block + name, shape);
  }
  return all;
}

// Three heads of 4 that share one of keys and values.
Theirs llama(const std::string& type) {
  Theirs all{.config = {{"model_type", type},
                        {"num_hidden_layers", 2},
                        {"hidden_size", 12},
                        {"num_attention_heads", 3},
                        {"num_key_value_heads", 1},
                        {"head_dim", 4},
                        {"intermediate_size", 20},
                        {"vocab_size", 17},
                        {"max_position_embeddings", 8},
                        {"rms_norm_eps", 1e-6},
                        {"tie_word_embeddings", false}}};
  all.tensors = {
      {"model.embed_tokens.weight", {17, 12}}, {"model.norm.weight", {12}}, {"lm_head.weight", {17, 12}}};
  for (const char* block : {"model.layers.0.", "model.layers.1."}) {
    std::vector<std::pair<std::string, Shape>> inside = {
        {"input_layernorm.weight", {12}},      {"self_attn.q_proj.weight", {12, 12}},
        {"self_attn.k_proj.weight", {4, 12}},  {"self_attn.v_proj.weight", {4, 12}},
        {"self_attn.o_proj.weight", {12, 12}}, {"post_attention_layernorm.weight", {12}},
        {"mlp.gate_proj.weight", {20, 12}},    {"mlp.up_proj.weight", {20, 12}},
        {"mlp.down_proj.weight", {12, 20}}};
    if (type == "qwen2") {
      inside.push_back({"self_attn.q_proj.bias", {12}});
      inside.push_back({"self_attn.k_proj.bias", {4}});
      inside.push_back({"self_attn.v_proj.bias", {4}});
    }
    if (type == "qwen3") {
      inside.push_back({"self_attn.q_norm.weight", {4}});
      inside.push_back({"self_attn.k_norm.weight", {4}});
    }
    for (const auto& [name, shape] : inside) all.tensors.emplace_back(block + name, shape);
  }
  return all;
}

// As BertModel is saved where `prefix` is empty, but for the pooler.
Theirs bert_body(const std::string& prefix) {
  Theirs all{.config = {{"model_type", "bert"},
                        {"num_hidden_layers", 2},
                        {"hidden_size", 12},
                        {"num_attention_heads", 3},
                        {"intermediate_size", 20},
                        {"vocab_size", 17},
                        {"max_position_embeddings", 8},
                        {"type_vocab_size", 2}}};
  const auto add = [&](const std::string& part, const Shape& weight) {
    all.tensors.push_back({prefix + part + ".weight", weight});
    all.tensors.push_back({prefix + part + ".bias", {weight.front()}});
  };
  all.tensors = {{prefix + "embeddings.word_embeddings.weight", {17, 12}},
                 {prefix + "embeddings.position_embeddings.weight", {8, 12}},
                 {prefix + "embeddings.token_type_embeddings.weight", {2, 12}}};
  add("embeddings.LayerNorm", {12});
  for (const std::string block : {"encoder.layer.0.", "encoder.layer.1."}) {
    for (const char* part : {"query", "key", "value"}) add(block + "attention.self." + part, {12, 12});
    add(block + "attention.output.dense", {12, 12});
    add(block + "attention.output.LayerNorm", {12});
    add(block + "intermediate.dense", {20, 12});
    add(block + "output.dense", {12, 20});
    add(block + "output.LayerNorm", {12});
  }
  return all;
}

Theirs bert(bool tied) {
  Theirs all = bert_body("bert.");
  all.config["architectures"] = Json::array({"BertForMaskedLM"});
  all.config["tie_word_embeddings"] = tied;
  const std::string head = "cls.predictions.";
  all.tensors.push_back({head + "transform.dense.weight", {12, 12}});
  for (const char* vector : {"dense.bias", "LayerNorm.weight", "LayerNorm.bias"})
    all.tensors.push_back({head + "transform." + vector, {12}});
  if (tied) {
    all.tensors.push_back({head + "bias", {17}});
  } else {
    all.tensors.push_back({head + "decoder.weight", {17, 12}});
    all.tensors.push_back({head + "decoder.bias", {17}});
  }
  return all;
}

void name_labels(Theirs& theirs, int labels) {
  for (int i = 0; i < labels; ++i)
    theirs.config["id2label"][std::to_string(i)] = "label " + std::to_string(i);
}

Theirs bert_classifier(int labels) {
  Theirs all = bert_body("bert.");
  all.config["architectures"] = Json::array({"BertForSequenceClassification"});
  name_labels(all, labels);
  all.tensors.push_back({"bert.pooler.dense.weight", {12, 12}});
  all.tensors.push_back({"bert.pooler.dense.bias", {12}});
  all.tensors.push_back({"classifier.weight", {labels, 12}});
  all.tensors.push_back({"classifier.bias", {labels}});
  return all;
}

// A decoder with another head.
Theirs as_classifier(Theirs all, const char* architecture, int labels) {
  std::erase_if(all.tensors, [](const auto& tensor) { return tensor.first == "lm_head.weight"; });
  all.config["architectures"] = Json::array({architecture});
  name_labels(all, labels);
  all.tensors.push_back({"score.weight", {labels, 12}});
  return all;
}

std::vector<Theirs> every_model() {
  return {gpt2(true),
          gpt2(false),
          llama("llama"),
          llama("qwen2"),
          llama("qwen3"),
          bert(true),
          bert(false),
          bert_classifier(3),
          bert_classifier(1),
          as_classifier(gpt2(true), "GPT2ForSequenceClassification", 4),
          as_classifier(llama("llama"), "LlamaForSequenceClassification", 1),
          as_classifier(llama("qwen2"), "Qwen2ForSequenceClassification", 2),
          as_classifier(llama("qwen3"), "Qwen3ForSequenceClassification", 3)};
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() &&
         std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

class HuggingFace : public testing::Test {
 protected:
  HuggingFace() : folder_(testing::TempDir() + "twobw_export_test_" + std::to_string(getpid())) {
    std::filesystem::create_directories(source());
    std::filesystem::create_directories(run());
  }
  ~HuggingFace() override { std::filesystem::remove_all(folder_); }

  std::string source() const { return folder_ + "/source"; }
  std::string run() const { return folder_ + "/run"; }
  std::string out(const std::string& name = "out") const { return folder_ + "/" + name; }

  void save(const Theirs& theirs, at::ScalarType type = at::kFloat,
            std::uint64_t limit = checkpoint::kShardBytes) const {
    std::filesystem::remove_all(source());
    std::filesystem::create_directories(source());
    std::ofstream(source() + "/config.json") << theirs.config;
    auto generator = at::detail::createCPUGenerator(3);
    std::vector<NamedTensor> tensors;
    for (const auto& [name, shape] : theirs.tensors)
      tensors.push_back({name, at::empty(shape, at::kFloat).normal_(0, 1, generator)});
    checkpoint::save_sharded(source(), tensors, type, limit);
  }

  Config load(std::vector<std::string> overrides = {}) const {
    overrides.push_back("model.from=" + source());
    return architecture::huggingface::load_run_config("", overrides);
  }

  // What a run that starts from the folder says of heads.
  checkpoint::HeadChange change(const Config& config) const {
    return checkpoint::Pretrained(config.model).check(models::build(config.model).layers);
  }

  // What a run of no updates leaves behind, of stages that begin at `cuts`.
  void save_run(const Config& config, const std::vector<int>& cuts, bool knows_source = true) const {
    const models::Model model = models::build(config.model);
    std::filesystem::remove_all(run());
    std::filesystem::create_directories(run() + "/from");
    for (const char* const name : {"/config.json", "/generation_config.json"}) {
      if (knows_source && std::filesystem::exists(source() + name))
        std::filesystem::copy_file(source() + name, run() + "/from" + name);
    }
    std::vector<NamedTensor> tensors;
    for (std::size_t stage = 0; stage < cuts.size(); ++stage) {
      const int last = stage + 1 < cuts.size() ? cuts[stage + 1] : model.size();
      const weights::Layout layout(model.layers, cuts[stage], last);
      const Tensor flat = at::zeros({layout.size()}, at::kFloat);
      weights::initialize(layout, flat, config);
      for (const weights::Parameter& parameter : layout.parameters()) {
        if (!parameter.spec.tied_to.empty()) continue;
        const auto stored = checkpoint::to_stored(
            config.model, parameter.spec,
            flat.narrow(0, parameter.offset, parameter.count).view(parameter.spec.shape));
        tensors.insert(tensors.end(), stored.begin(), stored.end());
      }
    }
    checkpoint::write_model(run() + "/model", tensors, model_files(config, run() + "/from"));
  }

  void expect_same(const std::string& folder, at::ScalarType type = at::kFloat) const {
    const checkpoint::TensorFolder before(source()), after(folder);
    EXPECT_EQ(before.names(), after.names());
    for (const std::string& name : before.names())
      EXPECT_TRUE(same_bits(before.view(name).to(type), after.view(name))) << name;
  }

  std::string refusal(const std::vector<std::string>& overrides = {}) const {
    try {
      change(load(overrides));
    } catch (const InputError& error) {
      return error.what();
    }
    return "not refused";
  }

  std::string folder_;
};

TEST_F(HuggingFace, InAndOutAgainIsTheSame) {
  int count = 0;
  for (const Theirs& theirs : every_model()) {
    for (const std::uint64_t limit : {std::uint64_t{1000}, checkpoint::kShardBytes}) {
      save(theirs, at::kFloat, limit);
      const Config config = load();
      EXPECT_TRUE(change(config).initialized.empty());
      EXPECT_TRUE(change(config).left_out.empty());
      for (const std::vector<int>& cuts : {std::vector<int>{0}, std::vector<int>{0, 3, 8}}) {
        save_run(config, cuts, /*knows_source=*/cuts.size() == 1);
        const std::string folder = out(std::to_string(count++));
        export_model({.from = run(), .folder = folder, .shard_bytes = limit});
        expect_same(folder);
        // What was exported is read like what was there.
        EXPECT_EQ(to_yaml({.model = architecture::huggingface::read_model(folder).model}),
                  to_yaml({.model = architecture::huggingface::read_model(source()).model}));
      }
    }
  }
}

TEST_F(HuggingFace, PositionsBeyondTheContextAreKept) {
  for (const Theirs& theirs : {gpt2(true), bert(true), bert_classifier(3)}) {
    save(theirs);
    const Config config = load({"model.context=5"});
    EXPECT_EQ(config.model.context, 5);
    for (const bool knows_source : {true, false}) {
      save_run(config, {0, 3}, knows_source);
      expect_same(run() + "/model");
      EXPECT_EQ(architecture::huggingface::read_model(run() + "/model").model.context,
                config.model.positions);
    }
  }
}

TEST_F(HuggingFace, NumbersOfSixteenBitsComeAndGo) {
  for (const auto& [type, name] : {std::pair{at::kBFloat16, "bf16"}, std::pair{at::kHalf, "fp16"}}) {
    save(llama("llama"), type);
    save_run(load(), {0});
    export_model({.from = run(), .folder = out(name), .dtype = name});
    expect_same(out(name), type);
  }
}

TEST_F(HuggingFace, WeightsOfATieAreReadAtBothEnds) {
  save(gpt2(true));
  const Config config = load();
  const models::Model model = models::build(config.model);
  const weights::Layout last(model.layers, model.size() - 1, model.size());
  const Tensor flat = at::zeros({last.size()}, at::kFloat);
  weights::initialize(last, flat, config);
  const weights::Parameter& head = last.parameters().back();
  ASSERT_EQ(head.spec.name, "head.weight");
  const checkpoint::TensorFolder folder(source());
  EXPECT_TRUE(same_bits(flat.narrow(0, head.offset, head.count).view(head.spec.shape),
                        folder.view("transformer.wte.weight")));
}

// As the model without its head is saved, and as older files are: with masks that are no weights.
TEST_F(HuggingFace, NamesMayLackThePrefix) {
  Theirs theirs = gpt2(true);
  for (auto& [name, shape] : theirs.tensors) name = name.substr(std::string("transformer.").size());
  theirs.tensors.push_back({"h.0.attn.bias", {1, 1, 8, 8}});
  save(theirs);
  save_run(load(), {0});
  export_model({.from = run(), .folder = out()});
  const checkpoint::TensorFolder before(source()), after(out());
  EXPECT_TRUE(
      same_bits(before.view("h.1.attn.c_attn.weight"), after.view("transformer.h.1.attn.c_attn.weight")));
}

// As bert-base-uncased is: older names, a table that is no weight, and heads besides.
TEST_F(HuggingFace, OlderFilesOfABertAreRead) {
  Theirs theirs = bert(true);
  for (auto& [name, shape] : theirs.tensors) {
    const std::string part = "LayerNorm.";
    const std::size_t at = name.find(part);
    if (at != std::string::npos)
      name = name.substr(0, at + part.size()) + (name.ends_with("bias") ? "beta" : "gamma");
  }
  theirs.tensors.push_back({"bert.embeddings.position_ids", {1, 8}});
  theirs.tensors.push_back({"bert.pooler.dense.weight", {12, 12}});
  theirs.tensors.push_back({"cls.seq_relationship.weight", {2, 12}});
  save(theirs);
  const Config config = load();
  EXPECT_EQ(change(config).initialized, Names());
  EXPECT_EQ(change(config).left_out, (Names{"bert.pooler.dense.weight", "cls.seq_relationship.weight"}));
  save_run(config, {0});
  const checkpoint::TensorFolder before(source()), after(run() + "/model");
  EXPECT_TRUE(same_bits(before.view("bert.encoder.layer.1.output.LayerNorm.gamma"),
                        after.view("bert.encoder.layer.1.output.LayerNorm.weight")));
  EXPECT_TRUE(same_bits(before.view("cls.predictions.transform.LayerNorm.beta"),
                        after.view("cls.predictions.transform.LayerNorm.bias")));
}

// The bias of an untied output, as both generations of transformers save it.
TEST_F(HuggingFace, AnUntiedOutputHasOneBias) {
  Theirs theirs = bert(false);
  theirs.tensors.push_back({"cls.predictions.bias", {17}});
  save(theirs);
  EXPECT_EQ(change(load()).left_out, Names{"cls.predictions.bias"});
  std::erase_if(theirs.tensors,
                [](const auto& tensor) { return tensor.first == "cls.predictions.decoder.bias"; });
  save(theirs);
  EXPECT_EQ(change(load()).left_out, Names());
}

TEST_F(HuggingFace, HeadsThatAreMissingAreInitialized) {
  Theirs theirs = bert_body("");
  theirs.config["architectures"] = Json::array({"BertModel"});
  save(theirs);
  EXPECT_EQ(change(load()).initialized,
            (Names{"cls.predictions.transform.dense.weight", "cls.predictions.transform.dense.bias",
                   "cls.predictions.transform.LayerNorm.weight", "cls.predictions.transform.LayerNorm.bias",
                   "cls.predictions.bias"}));
  const Config config = load({"model.head=classification", "model.labels=3", "train.seed=5"});
  EXPECT_EQ(change(config).initialized, (Names{"bert.pooler.dense.weight", "bert.pooler.dense.bias",
                                               "classifier.weight", "classifier.bias"}));
  // The rest is read, and what is new is as in a model that starts from nothing.
  save_run(config, {0, 5});
  Config anew = config;
  anew.model.from = "none";
  const models::Model model = models::build(anew.model);
  const weights::Layout layout(model.layers, 0, model.size());
  const Tensor flat = at::zeros({layout.size()}, at::kFloat);
  weights::initialize(layout, flat, anew);
  const checkpoint::TensorFolder before(source()), after(run() + "/model");
  for (const std::string& name : before.names())
    EXPECT_TRUE(same_bits(before.view(name), after.view("bert." + name))) << name;
  for (const weights::Parameter& parameter : layout.parameters()) {
    const Tensor ours = flat.narrow(0, parameter.offset, parameter.count).view(parameter.spec.shape);
    const std::string name = checkpoint::to_stored(anew.model, parameter.spec, ours).front().name;
    EXPECT_EQ(same_bits(ours, after.view(name)), parameter.spec.name.starts_with("head.")) << name;
  }
}

TEST_F(HuggingFace, NewHeadsHaveTheRangeThatTheirConfigSays) {
  Theirs theirs = as_classifier(llama("llama"), "LlamaModel", 2);
  const auto spread = [&](const Json& range) {
    theirs.config["initializer_range"] = range;
    save(theirs);
    const Config config = load({"model.head=classification", "model.labels=300"});
    save_run(config, {0});
    return checkpoint::TensorFolder(run() + "/model").view("score.weight").std().item<double>();
  };
  EXPECT_NEAR(spread(nullptr), 0.02, 0.001);
  EXPECT_NEAR(spread(0.5), 0.5, 0.025);
  EXPECT_EQ(spread(0.0), 0);
  theirs.config["initializer_range"] = -1;
  save(theirs);
  EXPECT_EQ(refusal({"model.head=classification"}),
            "'" + source() + "/config.json' has initializer_range = -1; it must be a number of at least 0");
}

TEST_F(HuggingFace, APoolerIsUsedWhereThereIsOne) {
  Theirs theirs = bert_body("");
  theirs.config["architectures"] = Json::array({"BertModel"});
  theirs.tensors.push_back({"pooler.dense.weight", {12, 12}});
  theirs.tensors.push_back({"pooler.dense.bias", {12}});
  save(theirs);
  EXPECT_EQ(change(load()).left_out, (Names{"pooler.dense.bias", "pooler.dense.weight"}));
  const Config config = load({"model.head=regression"});
  EXPECT_EQ(change(config).initialized, (Names{"classifier.weight", "classifier.bias"}));
  EXPECT_EQ(change(config).left_out, Names());
  save_run(config, {0});
  EXPECT_TRUE(same_bits(checkpoint::TensorFolder(source()).view("pooler.dense.weight"),
                        checkpoint::TensorFolder(run() + "/model").view("bert.pooler.dense.weight")));
}

TEST_F(HuggingFace, AnotherHeadTakesThePlaceOfTheirs) {
  save(llama("llama"));
  Config config = load({"model.head=classification", "model.labels=3"});
  EXPECT_EQ(change(config).initialized, Names{"score.weight"});
  EXPECT_EQ(change(config).left_out, Names{"lm_head.weight"});
  save_run(config, {0, 7});
  export_model({.from = run(), .folder = out()});
  EXPECT_EQ(architecture::huggingface::read_model(out()).model.labels, 3);
  EXPECT_FALSE(std::filesystem::exists(out() + "/generation_config.json"));

  save(bert_classifier(3));
  config = load({"model.labels=2"});
  EXPECT_EQ(change(config).initialized, (Names{"classifier.weight [2, 12] (there it is [3, 12])",
                                               "classifier.bias [2] (there it is [3])"}));
  EXPECT_EQ(change(config).left_out, Names());
  save_run(config, {0});
  EXPECT_EQ(architecture::huggingface::read_model(run() + "/model").model.labels, 2);
}

TEST_F(HuggingFace, HeadsThatArePromisedMustBeThere) {
  for (const auto& [theirs, tensor] :
       {std::pair{bert(true), "cls.predictions.transform.dense.weight"},
        std::pair{bert_classifier(3), "bert.pooler.dense.bias"},
        std::pair{bert_classifier(1), "classifier.weight"}, std::pair{llama("llama"), "lm_head.weight"}}) {
    Theirs damaged = theirs;
    std::erase_if(damaged.tensors, [&, name = tensor](const auto& entry) { return entry.first == name; });
    save(damaged);
    EXPECT_NE(refusal().find(std::string("; 1 missing: ") + tensor), std::string::npos) << refusal();
  }
  // One of another shape is not a head that is missing.
  Theirs theirs = bert_body("");
  theirs.config["architectures"] = Json::array({"BertModel"});
  theirs.tensors.push_back({"pooler.dense.weight", {5, 5}});
  save(theirs);
  EXPECT_NE(refusal({"model.head=classification"})
                .find("1 of another shape: pooler.dense.weight [5, 5] instead of [12, 12]"),
            std::string::npos);
  // Nor are other parts of the model.
  theirs.tensors = {{"embeddings.word_embeddings.weight", {17, 12}}, {"embeddings.", {1}}, {"", {1}}};
  save(theirs);
  EXPECT_NE(refusal().find("2 not expected: , embeddings."), std::string::npos) << refusal();
}

// Whatever is in the files, they are read or refused in one sentence.
TEST_F(HuggingFace, DamagedFoldersAreReadOrRefused) {
  std::mt19937 random(7);
  for (const Theirs& theirs :
       {bert(true), bert_classifier(3), as_classifier(gpt2(true), "GPT2ForSequenceClassification", 4)}) {
    for (const char* const name : {"/config.json", "/model.safetensors"}) {
      save(theirs);
      std::ifstream file(source() + name, std::ios::binary);
      const std::string text(std::istreambuf_iterator<char>(file), {});
      const std::size_t end = std::min<std::size_t>(text.size(), 6000);  // numbers may be any
      for (int round = 0; round < 200; ++round) {
        std::string damaged = text;
        for (int i = 0; i <= round % 3; ++i) damaged[random() % end] ^= static_cast<char>(1 + random() % 127);
        std::ofstream(source() + name, std::ios::binary) << damaged;
        for (const char* const head : {"model.head=auto", "model.head=classification"})
          EXPECT_EQ(refusal({head}).find('\n'), std::string::npos) << refusal({head});
      }
    }
  }
}

TEST_F(HuggingFace, AllThatDoesNotFitIsListed) {
  Theirs theirs = llama("llama");
  for (auto& [name, shape] : theirs.tensors) {
    if (name == "model.norm.weight") name = "model.norm.gain";
    if (name == "model.layers.1.self_attn.k_proj.weight") shape = {8, 12};
    if (name == "lm_head.weight") name = "head";
  }
  save(theirs);
  const std::string sentence = refusal();
  EXPECT_NE(sentence.find("the tensors in '" + source() + "' are not those of its config.json; "),
            std::string::npos);
  EXPECT_NE(
      sentence.find("2 missing: model.norm.weight, lm_head.weight; 2 not expected: head, model.norm.gain; "
                    "1 of another shape: model.layers.1.self_attn.k_proj.weight [8, 12] instead of [4, 12]"),
      std::string::npos)
      << sentence;
}

// A sentence that can be read, however many there are: layers are told together.
TEST_F(HuggingFace, AllThatDoNotFitAreListed) {
  Theirs theirs = llama("llama");
  theirs.config["num_hidden_layers"] = 4000;
  save(theirs);
  const std::string sentence = refusal();
  EXPECT_NE(sentence.find("; 35982 missing: model.layers.2-3999.input_layernorm.weight, "), std::string::npos)
      << sentence;
  EXPECT_TRUE(sentence.ends_with(", model.layers.2-3999.mlp.down_proj.weight")) << sentence;
  EXPECT_LT(sentence.size(), 1000U);
  theirs.config["num_hidden_layers"] = 3;
  save(theirs);
  EXPECT_TRUE(refusal().ends_with(", model.layers.2.mlp.down_proj.weight")) << refusal();
}

TEST_F(HuggingFace, ExportIsRefusedBeforeAnythingIsWritten) {
  const auto refused = [&](const Export& request) {
    try {
      export_model(request);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("not refused");
  };
  EXPECT_NE(refused({.from = run(), .folder = out()}).find("config.json"), std::string::npos);
  save(llama("llama"));
  save_run(load(), {0});
  EXPECT_EQ(refused({.from = run(), .folder = out(), .dtype = "int8"}),
            "--dtype is 'int8'; it must be one of fp32, bf16, fp16");
  EXPECT_EQ(refused({.from = run(), .folder = run()}),
            "'" + run() + "' is not empty; give a new folder to export to");
  EXPECT_FALSE(std::filesystem::exists(out()));
}

TEST_F(HuggingFace, FilesOfTheTokenizerAreCarriedAlong) {
  const std::string tokens = out("tokens");
  std::filesystem::create_directories(tokens);
  std::ofstream(tokens + "/vocab.txt") << "[UNK]\n[CLS]\n[SEP]\n[PAD]\n[MASK]\na\nb\n";
  std::ofstream(tokens + "/tokenizer_config.json") << "{}";
  std::ofstream(tokens + "/notes.md") << "not one of them";
  save(llama("llama"));
  Config config = load();
  config.data.tokenizer = tokens;
  std::ofstream(source() + "/generation_config.json") << "{\"temperature\": 0.6}\n";
  save_run(config, {0});
  export_model({.from = run(), .folder = out()});
  EXPECT_TRUE(std::filesystem::exists(out() + "/vocab.txt"));
  EXPECT_TRUE(std::filesystem::exists(out() + "/tokenizer_config.json"));
  EXPECT_FALSE(std::filesystem::exists(out() + "/notes.md"));
  std::ifstream file(out() + "/generation_config.json");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "{\"temperature\": 0.6}\n");
}

}  // namespace
}  // namespace twobw::train
