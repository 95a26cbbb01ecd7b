#include "text/tokenizer/class_settings.h"

#include <algorithm>
#include <array>

namespace twobw::tokenizer {
namespace {

constexpr std::array<const char*, 3> kBertText = {"do_lower_case", "strip_accents", "tokenize_chinese_chars"};

}  // namespace

void set_prefix_space(const Beside& beside, ByteLevelModel& model) {
  const std::optional<bool> given = beside.flag("add_prefix_space");
  if (model.pattern == Pattern::kGpt2 || model.pattern == Pattern::kNone) {
    if (given) model.prefix_space = *given;
    if (!given && beside.class_name() == "GPT2Tokenizer") model.prefix_space = false;
  } else if (given.value_or(false)) {
    // It would stand before every word.
    beside.find("add_prefix_space")->refuse("be false where a text is split as Qwen 2 or Llama 3 does");
  }
}

void check_class(const Beside& beside, const ByteLevelModel& model) {
  const std::string name = beside.class_name();
  const bool is_gpt2 = name == "GPT2Tokenizer", is_qwen2 = name == "Qwen2Tokenizer";
  if (!is_gpt2 && !is_qwen2) return;
  const Pattern own = is_gpt2 ? Pattern::kGpt2 : Pattern::kQwen2;
  if (model.pattern == own && model.compose == is_qwen2 && !model.ignore_merges) return;
  beside.find("tokenizer_class")
      ->refuse(
          "be PreTrainedTokenizerFast here: this class of transformers splits otherwise than tokenizer.json");
}

bool sets_bert_text(const Beside& beside) {
  if (beside.keeps_json()) return false;
  return beside.class_name() == "BertTokenizer" ||
         std::ranges::any_of(kBertText, [&](const char* key) { return beside.find(key).has_value(); });
}

BertNormalizer bert_normalizer(const Beside& beside) {
  const bool lower_case = beside.flag("do_lower_case").value_or(true);
  return {.space_ideographs = beside.flag("tokenize_chinese_chars").value_or(true),
          .strip_accents = beside.flag("strip_accents").value_or(lower_case),
          .lower_case = lower_case};
}

Beside::Defaults bert_tokens() {
  return {{"unk_token", "[UNK]"},
          {"sep_token", "[SEP]"},
          {"pad_token", "[PAD]"},
          {"cls_token", "[CLS]"},
          {"mask_token", "[MASK]"}};
}

bool sets_bert_frame(const Beside& beside) {
  return sets_bert_text(beside) ||
         (!beside.keeps_json() && (beside.special("cls_token") || beside.special("sep_token")));
}

void frame_bert(Frame& frame) {
  frame.prefix.clear();
  frame.suffix.clear();
  if (frame.special.cls) frame.prefix = {*frame.special.cls};
  if (frame.special.sep) frame.suffix = {*frame.special.sep};
}

}  // namespace twobw::tokenizer
