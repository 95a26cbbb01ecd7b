#include "text/tokenizer/plain_files.h"

#include <algorithm>
#include <optional>

#include "core/base/error.h"
#include "core/base/json.h"
#include "text/tokenizer/byte_level.h"
#include "text/tokenizer/class_settings.h"
#include "text/tokenizer/json_frame.h"
#include "text/tokenizer/merges.h"
#include "text/tokenizer/tokenizer_json.h"
#include "text/tokenizer/word_piece.h"

namespace twobw::tokenizer {
namespace {

// Without the ends of the lines. A last line without one counts.
std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t stop = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, stop);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.emplace_back(line);
    text.remove_prefix(std::min(stop + 1, text.size()));
  }
  return lines;
}

// A token before or after every text, where tokenizer_config.json asks for it and the class has it.
void add_ends(const Beside& beside, bool has_begin, Frame& frame) {
  if (has_begin && frame.special.bos && beside.flag("add_bos_token").value_or(false))
    frame.prefix = {*frame.special.bos};
  if (frame.special.eos && beside.flag("add_eos_token").value_or(false)) frame.suffix = {*frame.special.eos};
}

}  // namespace

std::unique_ptr<Tokenizer> read_vocab_and_merges(const PlainFile& vocab, const PlainFile& merges,
                                                 const Beside& beside) {
  ByteLevelModel model;
  const std::string name = beside.class_name();
  const bool is_qwen = name == "Qwen2Tokenizer";
  if (is_qwen) {
    model.pattern = Pattern::kQwen2;
    model.compose = true;
  } else if (!name.empty() && name != "GPT2Tokenizer") {
    beside.find("tokenizer_class")
        ->refuse(
            "be GPT2Tokenizer or Qwen2Tokenizer with vocab.json and merges.txt; others need their "
            "tokenizer.json");
  }
  set_prefix_space(beside, model);
  const JsonDocument vocabulary(vocab.text, fmt::format("vocabulary '{}'", vocab.path));
  model.vocabulary = read_vocabulary(vocabulary.root());
  std::vector<std::string> lines = lines_of(merges.text);
  std::erase_if(lines, [](const std::string& line) { return line.empty() || line.starts_with("#version"); });
  model.merges = read_merges(model.vocabulary, lines, fmt::format("merges '{}'", merges.path));
  constexpr const char* kEnd = "<|endoftext|>";
  const char* const begin = is_qwen ? "pad_token" : "bos_token";
  Frame frame;
  complete_frame(beside, model.vocabulary, frame, {{"unk_token", kEnd}, {"eos_token", kEnd}, {begin, kEnd}});
  add_ends(beside, !is_qwen || beside.special("bos_token"), frame);
  return std::make_unique<ByteLevelBpe>(std::move(model), std::move(frame));
}

std::unique_ptr<Tokenizer> read_vocab_txt(const PlainFile& vocab, const Beside& beside) {
  WordPieceModel model;
  Id id = 0;
  for (const std::string& line : lines_of(vocab.text)) model.vocabulary.add(id++, line);
  const std::string unknown_name = beside.special("unk_token").value_or("[UNK]");
  const std::optional<Id> unknown = model.vocabulary.find(unknown_name);
  if (!unknown) {
    fail_input("vocabulary '{}' lacks the token {}, which WordPiece needs", vocab.path,
               shown_name(unknown_name));
  }
  model.unknown = *unknown;
  model.normalizer = bert_normalizer(beside);
  Frame frame;
  complete_frame(beside, model.vocabulary, frame, bert_tokens());
  frame_bert(frame);
  return std::make_unique<WordPiece>(std::move(model), std::move(frame));
}

}  // namespace twobw::tokenizer
