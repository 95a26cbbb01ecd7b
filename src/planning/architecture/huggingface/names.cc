#include "planning/architecture/huggingface/names.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "core/base/error.h"
#include "planning/architecture/families.h"
#include "planning/architecture/llama.h"

namespace twobw::architecture::huggingface {
namespace {

using Names = std::map<std::string, std::vector<std::string>, std::less<>>;

// Names of a family, here to transformers, without .weight and .bias.
struct NameTable {
  std::string_view prefix;                 // of all names outside of heads
  std::string_view block;                  // "h.", before the number of the block
  Names outside;                           // of the blocks, except heads
  Names inside;                            // of a block
  Names language, sequences;               // heads, including their prefix
  bool transposed = false;                 // block matrices, stored as GPT-2's Conv1D
  std::vector<std::string_view> spare;     // suffixes of redundant tensors
  std::vector<TiedNames> tied;             // if the output is tied
  std::vector<std::string_view> of_heads;  // prefixes of head names
};

const NameTable& gpt_names() {
  static const NameTable table = {
      .prefix = "transformer.",
      .block = "h.",
      .outside = {{"embedding.tokens", {"wte"}}, {"embedding.positions", {"wpe"}}, {"head.norm", {"ln_f"}}},
      .inside = {{"attention.norm", {"ln_1"}},
                 {"attention.qkv", {"attn.c_attn"}},
                 {"attention.out", {"attn.c_proj"}},
                 {"mlp.norm", {"ln_2"}},
                 {"mlp.up", {"mlp.c_fc"}},
                 {"mlp.down", {"mlp.c_proj"}}},
      .language = {{"head", {"lm_head"}}},
      .sequences = {{"head", {"score"}}},
      .transposed = true,
      .spare = {".attn.bias", ".attn.masked_bias"},
      .tied = {{"lm_head.weight", "transformer.wte.weight"}},
      .of_heads = {"lm_head.", "score."}};
  return table;
}

const NameTable& llama_names() {
  static const NameTable table = {
      .prefix = "model.",
      .block = "layers.",
      .outside = {{"embedding.tokens", {"embed_tokens"}}, {"head.norm", {"norm"}}},
      .inside = {{"attention.norm", {"input_layernorm"}},
                 {"attention.qkv", {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}},
                 {"attention.q_norm", {"self_attn.q_norm"}},
                 {"attention.k_norm", {"self_attn.k_norm"}},
                 {"attention.out", {"self_attn.o_proj"}},
                 {"mlp.norm", {"post_attention_layernorm"}},
                 {"mlp.gate_up", {"mlp.gate_proj", "mlp.up_proj"}},
                 {"mlp.down", {"mlp.down_proj"}}},
      .language = {{"head", {"lm_head"}}},
      .sequences = {{"head", {"score"}}},
      .spare = {".rotary_emb.inv_freq"},
      .tied = {{"lm_head.weight", "model.embed_tokens.weight"}},
      .of_heads = {"lm_head.", "score."}};
  return table;
}

// `output`: name of the token output, or of its bias alone.
NameTable make_bert_names(const char* output) {
  return {
      .prefix = "bert.",
      .block = "encoder.layer.",
      .outside = {{"embedding.tokens", {"embeddings.word_embeddings"}},
                  {"embedding.positions", {"embeddings.position_embeddings"}},
                  {"embedding.types", {"embeddings.token_type_embeddings"}},
                  {"embedding.norm", {"embeddings.LayerNorm"}}},
      .inside = {{"attention.qkv", {"attention.self.query", "attention.self.key", "attention.self.value"}},
                 {"attention.out", {"attention.output.dense"}},
                 {"attention.norm", {"attention.output.LayerNorm"}},
                 {"mlp.up", {"intermediate.dense"}},
                 {"mlp.down", {"output.dense"}},
                 {"mlp.norm", {"output.LayerNorm"}}},
      .language = {{"head.transform", {"cls.predictions.transform.dense"}},
                   {"head.norm", {"cls.predictions.transform.LayerNorm"}},
                   {"head", {output}},
                   {"head.pooler", {"bert.pooler.dense"}},
                   {"head.next_sentence", {"cls.seq_relationship"}}},
      .sequences = {{"head.pooler", {"bert.pooler.dense"}}, {"head", {"classifier"}}},
      .spare = {"embeddings.position_ids", "embeddings.token_type_ids"},
      .tied = {{"cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"},
               {"cls.predictions.decoder.bias", "cls.predictions.bias"}},
      .of_heads = {"cls.", "classifier.", "bert.pooler.", "pooler."}};
}

// The bias of a tied output has another name.
const NameTable& bert_names(bool tied) {
  static const NameTable of_tied = make_bert_names("cls.predictions"),
                         of_untied = make_bert_names("cls.predictions.decoder");
  return tied ? of_tied : of_untied;
}

// Empty: not in transformers.
const NameTable& names_of(const ModelConfig& config) {
  static const NameTable none = {};
  if (config.family == "gpt") return gpt_names();
  if (config.family == "llama") return llama_names();
  return config.family == "bert" ? bert_names(config.tied) : none;
}

const Names& head_names(const ModelConfig& config) {
  const NameTable& table = names_of(config);
  return is_sequence_head(config.head) ? table.sequences : table.language;
}

// Parsed name: PART.KIND or blocks.NUMBER.PART.KIND.
struct NameParts {
  std::string_view block;  // number; empty: outside of the blocks
  std::string_view part;   // "attention.qkv"
  std::string_view kind;   // ".weight" or ".bias"
};

NameParts parts_of(std::string_view name) {
  constexpr std::string_view kBlocks = "blocks.", kWeight = ".weight";
  NameParts parts{.part = name, .kind = kWeight};  // embeddings omit the kind
  if (name.ends_with(kWeight) || name.ends_with(".bias")) {
    parts.kind = name.substr(name.rfind('.'));
    parts.part.remove_suffix(parts.kind.size());
  }
  if (!parts.part.starts_with(kBlocks)) return parts;
  parts.part.remove_prefix(kBlocks.size());
  const std::size_t dot = parts.part.find('.');
  TWOBW_ASSERT(dot != std::string_view::npos, "'{}' is not the name of a parameter", name);
  parts.block = parts.part.substr(0, dot);
  parts.part.remove_prefix(dot + 1);
  return parts;
}

// Names in transformers, in stacking order.
std::vector<std::string> translate(const NameTable& table, const Names& head, const NameParts& ours) {
  const bool of_head = ours.block.empty() && head.contains(ours.part);
  const Names& names = of_head ? head : ours.block.empty() ? table.outside : table.inside;
  std::string before(of_head ? "" : table.prefix);
  if (!ours.block.empty()) before += fmt::format("{}{}.", table.block, ours.block);
  const auto found = names.find(ours.part);
  TWOBW_ASSERT(found != names.end(), "transformers has no name for '{}'", ours.part);
  std::vector<std::string> result;
  for (const std::string& theirs : found->second)
    result.push_back(fmt::format("{}{}{}", before, theirs, ours.kind));
  return result;
}

// Rows of each stacked tensor.
std::vector<std::int64_t> rows_of(const ModelConfig& config, std::string_view part, std::size_t pieces,
                                  std::int64_t all) {
  if (pieces == 1) return {all};
  if (part != "attention.qkv") return {all / 2, all / 2};  // gates and values
  const std::int64_t head = head_size(config), keys = kv_heads(config) * head;
  return {config.heads * head, keys, keys};
}

}  // namespace

bool has_family(const ModelConfig& config) {
  return !names_of(config).prefix.empty();
}

std::vector<Piece> pieces_of(const ModelConfig& config, const Parameter& parameter) {
  if (!has_family(config)) return {{.name = parameter.group_name(), .shape = parameter.shape}};
  const NameTable& table = names_of(config);
  const NameParts ours = parts_of(parameter.group_name());
  const std::vector<std::string> names = translate(table, head_names(config), ours);
  const std::vector<std::int64_t> rows = rows_of(config, ours.part, names.size(), parameter.shape.front());
  const bool matrix_of_block = !ours.block.empty() && parameter.shape.size() == 2;
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Piece piece{.name = names[i], .shape = parameter.shape};
    piece.shape.front() = rows[i];
    piece.transposed = table.transposed && matrix_of_block;
    if (piece.transposed) std::swap(piece.shape[0], piece.shape[1]);
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

std::string_view prefix_of(const ModelConfig& config) {
  return names_of(config).prefix;
}

std::string former_name(std::string_view name) {
  static const std::vector<std::pair<std::string_view, std::string_view>> ends = {
      {"LayerNorm.weight", "LayerNorm.gamma"},
      {"LayerNorm.bias", "LayerNorm.beta"},
      {"cls.predictions.decoder.bias", "cls.predictions.bias"}};
  for (const auto& [now, then] : ends) {
    if (name.ends_with(now)) return fmt::format("{}{}", name.substr(0, name.size() - now.size()), then);
  }
  return {};
}

std::vector<TiedNames> tied_names(const ModelConfig& config) {
  return config.tied ? names_of(config).tied : std::vector<TiedNames>();
}

bool is_of_head(const ModelConfig& config, const Parameter& parameter) {
  if (!has_family(config)) return false;
  const NameParts ours = parts_of(parameter.group_name());
  return ours.block.empty() && head_names(config).contains(ours.part);
}

bool is_head_name(const ModelConfig& config, std::string_view name) {
  return std::ranges::any_of(names_of(config).of_heads,
                             [&](std::string_view start) { return name.starts_with(start); });
}

bool is_spare(const ModelConfig& config, std::string_view name) {
  const NameTable& table = names_of(config);
  const bool tied = config.tied && !is_sequence_head(config.head);
  if (tied && std::ranges::find(table.tied, name, &TiedNames::output) != table.tied.end()) return true;
  return std::ranges::any_of(table.spare, [&](std::string_view end) { return name.ends_with(end); });
}

}  // namespace twobw::architecture::huggingface
