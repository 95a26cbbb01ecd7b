#include "planning/architecture/huggingface/model_config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "core/base/json.h"
#include "planning/architecture/families.h"
#include "planning/architecture/huggingface/names.h"

namespace twobw::architecture::huggingface {
namespace {

using Json = nlohmann::json;

// Head of a saved model.
enum class StoredHead { Language, Sequences, None };

constexpr const char* kWithNextSentence = "BertForPreTraining";
constexpr double kInitializerRange = 0.02;  // default of transformers

struct Architecture {
  std::string name;
  StoredHead head;
};

struct ModelKind {
  std::string model_type;
  std::vector<Architecture> architectures;  // the first one with a head is written
  ModelConfig (*read)(const ConfigFile& file);
  std::vector<std::string> dropouts = {};  // keys of dropout rates; the first one is read
};

const std::vector<ModelKind>& model_kinds() {
  using enum StoredHead;
  static const std::vector<ModelKind> all = {
      {"gpt2",
       {{"GPT2LMHeadModel", Language}, {"GPT2ForSequenceClassification", Sequences}, {"GPT2Model", None}},
       read_gpt2,
       {"resid_pdrop", "embd_pdrop", "attn_pdrop"}},
      {"llama",
       {{"LlamaForCausalLM", Language}, {"LlamaForSequenceClassification", Sequences}, {"LlamaModel", None}},
       read_llama},
      {"qwen2",
       {{"Qwen2ForCausalLM", Language}, {"Qwen2ForSequenceClassification", Sequences}, {"Qwen2Model", None}},
       read_llama},
      {"qwen3",
       {{"Qwen3ForCausalLM", Language}, {"Qwen3ForSequenceClassification", Sequences}, {"Qwen3Model", None}},
       read_llama},
      {"bert",
       {{"BertForMaskedLM", Language},
        {"BertForSequenceClassification", Sequences},
        {"BertModel", None},
        {kWithNextSentence, Language}},
       read_bert,
       {"hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout"}},
  };
  return all;
}

const ModelKind& find_kind(const ConfigFile& file) {
  const std::string type = file.word("model_type", "");
  const auto found = std::ranges::find(model_kinds(), type, &ModelKind::model_type);
  if (found != model_kinds().end()) return *found;
  std::vector<std::string> known;
  for (const ModelKind& kind : model_kinds()) known.push_back(kind.model_type);
  file.refuse("model_type", fmt::format("be one of {}", fmt::join(known, ", ")));
}

StoredHead stored_head(const ConfigFile& file, const ModelKind& kind) {
  const std::vector<std::string> given = file.words("architectures");
  if (given.empty()) return StoredHead::Language;
  std::vector<std::string> known;
  for (const Architecture& architecture : kind.architectures) {
    if (std::ranges::find(given, architecture.name) != given.end()) return architecture.head;
    known.push_back(architecture.name);
  }
  file.refuse("architectures", fmt::format("have one of {}", fmt::join(known, ", ")));
}

// Class of transformers.
std::string architecture_of(const ModelConfig& config) {
  const std::string type = config.family == "gpt"    ? "gpt2"
                           : config.family == "bert" ? "bert"
                                                     : llama_type(config);
  const ModelKind& kind = *std::ranges::find(model_kinds(), type, &ModelKind::model_type);
  if (config.next_sentence) return kWithNextSentence;
  const StoredHead head = is_sequence_head(config.head) ? StoredHead::Sequences : StoredHead::Language;
  return std::ranges::find(kind.architectures, head, &Architecture::head)->name;
}

Json id_or_null(const std::optional<int>& id) {
  return id ? Json(*id) : Json(nullptr);
}

// End-of-text token, the first of several.
Json end_of_text(const Json& json, const TokenIds& ids, int vocab) {
  const auto found = json.find("eos_token_id");
  Json end = found == json.end() ? Json() : *found;
  if (end.is_array() && !end.empty()) end = Json(end.front());
  const bool is_known =
      end.is_number_unsigned() && end.get<std::uint64_t>() < static_cast<std::uint64_t>(vocab);
  return is_known ? end : id_or_null(ids.eos);
}

void set_head(Json& json, const ModelConfig& config, const TokenIds& ids,
              const std::vector<std::string>& classes) {
  json["architectures"] = Json::array({architecture_of(config)});
  if (!is_sequence_head(config.head)) return;
  write_labels(config, classes, json);
  if (config.family == "bert") return;
  // Decoders of transformers classify the last token that differs from the padding token, which therefore
  // must not occur in texts. Without one they accept a single text at a time.
  Json& padding = json["pad_token_id"];
  if (padding.is_null()) padding = ids.pad ? Json(*ids.pad) : end_of_text(json, ids, config.vocab);
}

// Writes the dropout rate to all keys of the model type.
void set_dropout(Json& json, const ModelConfig& config) {
  const std::string type = config.family == "gpt" ? "gpt2" : config.family;
  const auto kind = std::ranges::find(model_kinds(), type, &ModelKind::model_type);
  for (const std::string& key : kind->dropouts) {
    if (key != "classifier_dropout") json[key] = config.dropout;
  }
  if (json.contains("classifier_dropout")) json["classifier_dropout"] = nullptr;  // default: the other rates
}

// Older versions of transformers read torch_dtype, newer ones either key.
void set_dtype(Json& json, const std::string& dtype) {
  json["dtype"] = dtype;
  json["torch_dtype"] = dtype;
}

}  // namespace

ImportedModel read_model(const ConfigFile& file, ModelHead head) {
  const ModelKind& kind = find_kind(file);
  const StoredHead stored = stored_head(file, kind);
  file.expect_none("quantization_config", "weights are read as they are");
  file.expect_none("auto_map", "code of the model's own is not run");
  file.expect_none("pruned_heads", "all heads of a layer are computed");
  // Keys that no weight depends on. The context may change as well, within the positions.
  ImportedModel imported{
      .model = kind.read(file), .file = file.path(), .open = {"model.num_labels", "model.context"}};
  ModelConfig& model = imported.model;
  if (stored == StoredHead::Sequences) read_labels(file, model);
  if (head != ModelHead::Auto) {
    if (head != model.head) model.num_labels = ModelConfig{}.num_labels;
    model.head = head;
  }
  if (model.family != "llama") imported.open.emplace_back("model.dropout");
  if (model.family == "bert") {
    imported.open.emplace_back("model.padding");
    imported.open.emplace_back("model.next_sentence");
  } else {
    imported.open.emplace_back("model.reset_documents");
  }
  return imported;
}

namespace {

// Names on Hugging Face's hub are not resolved.
void check_is_folder(const std::string& folder) {
  std::error_code error;
  if (std::filesystem::is_directory(folder, error)) return;
  fail_input("model.from is '{}', and no such folder is here; it must be a local folder with a config.json",
             shown_name(folder));
}

// Refuses different dropout rates: training has a single one.
void check_dropouts(const ConfigFile& file) {
  const std::vector<std::string>& keys = find_kind(file).dropouts;
  for (const std::string& key : keys) {
    if (key == "classifier_dropout" && !file.has(key)) continue;  // default: the other rates
    const double first = file.number(keys.front(), kUsualDropout), rate = file.number(key, kUsualDropout);
    if (rate == first) continue;
    fail_input("'{}' has {} = {} and {} = {}; model.dropout must be set, to one rate for all places",
               file.path(), keys.front(), first, key, rate);
  }
}

ConfigFile open_folder(const std::string& folder) {
  check_is_folder(folder);
  return ConfigFile(folder + "/config.json");
}

}  // namespace

ImportedModel read_model(const ModelConfig& given) {
  return read_model(open_folder(given.from), given.head);
}

ImportedModel read_model(const std::string& folder) {
  return read_model(ModelConfig{.from = folder});
}

bool promises_head(const std::string& folder, const ModelConfig& config) {
  const ConfigFile file(folder + "/config.json");
  const StoredHead stored = stored_head(file, find_kind(file));
  if (stored != StoredHead::Sequences) {
    const std::vector<std::string> given = file.words("architectures");
    const bool has_next = std::ranges::find(given, kWithNextSentence) != given.end();
    return stored == StoredHead::Language && !is_sequence_head(config.head) &&
           (has_next || !config.next_sentence);
  }
  ModelConfig theirs;
  read_labels(file, theirs);
  return theirs.head == config.head && outputs_of(theirs) == outputs_of(config);
}

double initializer_range(const std::string& folder) {
  constexpr double kMost = 100;  // beyond it sums of products overflow soon
  const ConfigFile file(folder + "/config.json");
  const double range = file.number("initializer_range", kInitializerRange);
  if (range > kMost) file.refuse("initializer_range", fmt::format("be at most {}", kMost));
  return range;
}

namespace {

// A resumed run does not need its source: reads the copy of config.json if the source is missing.
ModelConfig with_description(const Config& given) {
  ModelConfig model = given.model;
  if (given.resume == "none" || std::filesystem::exists(model.from + "/config.json")) return model;
  const std::string kept = (given.resume == "auto" ? given.run_dir : given.resume) + "/from";
  if (std::filesystem::exists(kept + "/config.json")) model.from = kept;
  return model;
}

// Sets data.classes to the names of a kept head, unless given. Refuses the same names in another order.
void adopt_classes(const ConfigFile& file, Config& config) {
  const bool kept = stored_head(file, find_kind(file)) == StoredHead::Sequences;
  if (!kept || config.model.head != ModelHead::Classification) return;
  const std::vector<std::string> names = label_names(file);
  std::vector<std::string>& classes = config.data.classes;
  if (std::cmp_not_equal(names.size(), config.model.num_labels) || names == classes) return;
  if (classes.empty()) {
    classes = names;
  } else if (std::multiset(classes.begin(), classes.end()) == std::multiset(names.begin(), names.end())) {
    fail_input(
        "data.classes is [{}], but the model in '{}' knows these classes in the order [{}]; data.classes "
        "must have it, or be left out",
        shown_name(fmt::format("{}", fmt::join(classes, ", "))), file.path(),
        shown_name(fmt::format("{}", fmt::join(names, ", "))));
  }
}

}  // namespace

Config load_run_config(const std::string& path, const std::vector<std::string>& overrides) {
  std::optional<ConfigFile> file;
  Config config = load_config(path, overrides, [&](const Config& given) {
    const ModelConfig model = with_description(given);
    file = open_folder(model.from);
    ImportedModel imported = read_model(*file, model.head);
    if (!is_set("model.dropout", path, overrides)) check_dropouts(*file);
    return imported;
  });
  if (file) adopt_classes(*file, config);
  return config;
}

bool has_model(const ModelConfig& config) {
  return has_family(config) && !(config.family == "llama" && config.qkv_bias && config.qk_norm);
}

Json config_json(const ModelConfig& config, const std::string& dtype, const TokenIds& ids,
                 const std::vector<std::string>& classes) {
  if (!has_family(config))
    fail_input("model.family is '{}'; models of transformers are gpt, llama and bert", config.family);
  Json json = config.family == "gpt"    ? write_gpt2(config)
              : config.family == "bert" ? write_bert(config)
                                        : write_llama(config);
  json["initializer_range"] = kInitializerRange;
  json["tie_word_embeddings"] = config.tied;
  json["use_cache"] = true;
  json["bos_token_id"] = id_or_null(ids.bos);
  json["eos_token_id"] = id_or_null(ids.eos);
  json["pad_token_id"] = id_or_null(ids.pad);
  set_head(json, config, ids, classes);
  set_dtype(json, dtype);
  return json;
}

Json with_dtype(const std::string& source, const std::string& dtype) {
  Json json = Json::parse(source, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) fail_input("the model's config.json is not a JSON object");
  set_dtype(json, dtype);
  return json;
}

Json config_json_from(const std::string& source, const ModelConfig& config, const std::string& dtype,
                      const TokenIds& ids, const std::vector<std::string>& classes) {
  Json json = with_dtype(source, dtype);
  set_head(json, config, ids, classes);
  set_dropout(json, config);
  // Trained on longer sequences.
  const char* const longest = "max_position_embeddings";
  if (config.family == "llama" && config.rope_scaling != "dynamic" && json.contains(longest) &&
      json[longest].is_number() && json[longest].get<double>() < config.context) {
    keep_original_context(config, json);
    json[longest] = config.context;
  }
  return json;
}

}  // namespace twobw::architecture::huggingface
