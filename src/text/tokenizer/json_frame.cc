#include "text/tokenizer/json_frame.h"

#include <functional>
#include <initializer_list>

namespace twobw::tokenizer {
namespace {

bool flag_of(const JsonPart& part, const std::string& key) {
  const std::optional<JsonPart> found = part.find(key);
  return found && found->flag();
}

// A special token of a template stands for ids.
std::vector<Id> template_ids(const JsonPart& specials, const JsonPart& name) {
  std::vector<Id> ids;
  for (const JsonPart& id : specials[name.text()]["ids"].items()) ids.push_back(id.id());
  return ids;
}

void read_template(const JsonPart& part, Frame& frame) {
  bool before = true;
  for (const JsonPart& piece : part["single"].items()) {
    if (piece.find("Sequence")) {
      if (!before) piece.refuse("be the only sequence of its template");
      before = false;
      continue;
    }
    const std::vector<Id> ids = template_ids(part["special_tokens"], piece["SpecialToken"]["id"]);
    std::vector<Id>& side = before ? frame.prefix : frame.suffix;
    side.insert(side.end(), ids.begin(), ids.end());
  }
  if (before) part["single"].refuse("hold the sequence");
}

// ["[CLS]", 101]
Id id_of_pair(const JsonPart& pair) {
  const std::vector<JsonPart> items = pair.items();
  if (items.size() != 2) pair.refuse("be a token and its id");
  return items[1].id();
}

using FindToken = std::function<std::optional<Id>(std::string_view)>;

std::optional<Id> first_known(const FindToken& find, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    if (const std::optional<Id> id = find(name)) return id;
  }
  return std::nullopt;
}

SpecialIds find_special(const FindToken& find, const Beside& beside) {
  SpecialIds special = {
      .bos = first_known(find, {"<|begin_of_text|>", "<s>", "<|endoftext|>"}),
      .eos = first_known(find, {"<|end_of_text|>", "</s>", "<|endoftext|>"}),
      .pad = first_known(find, {"<pad>", "[PAD]"}),
      .unk = first_known(find, {"<unk>", "[UNK]"}),
      .cls = first_known(find, {"[CLS]"}),
      .sep = first_known(find, {"[SEP]"}),
      .mask = first_known(find, {"[MASK]", "<mask>"}),
  };
  const std::pair<const char*, std::optional<Id> SpecialIds::*> kNames[] = {
      {"bos_token", &SpecialIds::bos},  {"eos_token", &SpecialIds::eos}, {"pad_token", &SpecialIds::pad},
      {"unk_token", &SpecialIds::unk},  {"cls_token", &SpecialIds::cls}, {"sep_token", &SpecialIds::sep},
      {"mask_token", &SpecialIds::mask}};
  for (const auto& [key, member] : kNames) {
    const std::optional<std::string> name = beside.special(key);
    if (const std::optional<Id> id = name ? find(*name) : std::nullopt) special.*member = id;
  }
  return special;
}

}  // namespace

AddedToken read_added_token(const JsonPart& part, Id id) {
  return {.id = id,
          .content = part["content"].text(),
          .special = flag_of(part, "special"),
          .single_word = flag_of(part, "single_word"),
          .strip_left = flag_of(part, "lstrip"),
          .strip_right = flag_of(part, "rstrip"),
          .normalized = flag_of(part, "normalized")};
}

std::vector<AddedToken> read_added_tokens(const JsonPart& list) {
  std::vector<AddedToken> tokens;
  for (const JsonPart& part : list.items()) tokens.push_back(read_added_token(part, part["id"].id()));
  return tokens;
}

void read_post_processor(const JsonPart& part, Frame& frame) {
  const std::string type = part.type();
  if (type == "TemplateProcessing") {
    read_template(part, frame);
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    frame.prefix = {id_of_pair(part["cls"])};
    frame.suffix = {id_of_pair(part["sep"])};
  } else if (type == "Sequence") {
    // Of these only a template adds tokens, and one is allowed.
    for (const JsonPart& inner : part["processors"].items()) {
      if (inner.type() == "TemplateProcessing" && frame.prefix.empty() && frame.suffix.empty()) {
        read_template(inner, frame);
      } else if (inner.type() != "ByteLevel") {
        inner["type"].refuse("be ByteLevel or one TemplateProcessing");
      }
    }
  } else if (type != "ByteLevel") {
    part["type"].refuse("be TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel or Sequence");
  }
}

Frame read_frame(const JsonPart& root) {
  Frame frame;
  if (const std::optional<JsonPart> added = root.find("added_tokens"))
    frame.added = read_added_tokens(*added);
  if (const std::optional<JsonPart> after = root.find("post_processor")) read_post_processor(*after, frame);
  if (const std::optional<JsonPart> cut = root.find("truncation")) {
    const std::optional<JsonPart> side = cut->find("direction");
    frame.cuts_front = side && side->text() == "Left";
  }
  return frame;
}

void complete_frame(const Beside& beside, const Vocabulary& vocabulary, Frame& frame,
                    const Beside::Defaults& defaults) {
  beside.complete(frame.added, vocabulary, defaults);
  frame.cuts_front = beside.cuts_front(frame.cuts_front);
  frame.special = find_special(
      [&](std::string_view name) -> std::optional<Id> {
        for (const AddedToken& token : frame.added) {
          if (token.content == name) return token.id;
        }
        return std::nullopt;
      },
      beside);
}

}  // namespace twobw::tokenizer
