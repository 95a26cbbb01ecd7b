#include "text/tokenizer/byte_level.h"

#include <optional>

#include "core/base/error.h"
#include "core/base/json.h"
#include "text/tokenizer/readers.h"
#include "text/tokenizer/utf8.h"

namespace twobw::tokenizer {
namespace {

constexpr char32_t kHidden = 0x100;  // first character for an invisible byte

constexpr bool is_printable(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Alphabet {
  std::array<char32_t, 256> character{};
  std::array<std::int16_t, 0x144> byte{};  // -1: none
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  for (std::int16_t& byte : alphabet.byte) byte = -1;
  char32_t hidden = kHidden;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char32_t character = is_printable(byte) ? byte : hidden++;
    alphabet.character[byte] = character;
    alphabet.byte[character] = static_cast<std::int16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();

// Bytes of a `visible` text; nothing if a character is not in the alphabet.
std::optional<std::string> bytes_of_visible(std::string_view visible) {
  std::string bytes;
  const char* const end = visible.data() + visible.size();
  for (const char* at = visible.data(); at < end;) {
    const Character next = read_character(at, end);
    if (!next.valid || next.code >= kAlphabet.byte.size() || kAlphabet.byte[next.code] < 0)
      return std::nullopt;
    bytes.push_back(static_cast<char>(kAlphabet.byte[next.code]));
    at += next.length;
  }
  return bytes;
}

}  // namespace

// Output buffer that stores the ids of a word four at a time without checking the capacity.
class IdBuffer {
 public:
  explicit IdBuffer(std::vector<Id>& out) : out_(out) {}
  ~IdBuffer() { flush(); }
  IdBuffer(const IdBuffer&) = delete;
  IdBuffer& operator=(const IdBuffer&) = delete;

  void push(Id id) {
    if (used_ == kRoom) flush();
    ids_[used_++] = id;
  }

  // Appends the first `count` ids.
  void push_some(const std::array<Id, 4>& ids, std::size_t count) {
    if (used_ + ids.size() > kRoom) flush();
    std::memcpy(&ids_[used_], ids.data(), sizeof ids);
    used_ += count;
  }

 private:
  static constexpr std::size_t kRoom = 2048;

  void flush() {
    out_.insert(out_.end(), ids_.begin(), ids_.begin() + static_cast<std::ptrdiff_t>(used_));
    used_ = 0;
  }

  std::vector<Id>& out_;
  std::size_t used_ = 0;
  std::array<Id, kRoom> ids_;
};

char32_t visible(std::uint8_t byte) {
  return kAlphabet.character[byte];
}

std::string visible_text(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) append_character(visible(static_cast<std::uint8_t>(byte)), text);
  return text;
}

ByteLevelBpe::ByteLevelBpe(ByteLevelModel model, const SpecialTokens& tokens)
    : VocabularyTokenizer(std::move(model.vocabulary)),
      model_(std::move(model)),
      byte_ids_{.ids = {}, .unknown = model_.unknown, .fuse_unknown = model_.fuse_unknown},
      classes_(character_classes()) {
  for (std::size_t byte = 0; byte < byte_ids_.ids.size(); ++byte) {
    const char as_char = static_cast<char>(byte);
    byte_ids_.ids[byte] = vocabulary_.find(visible_text({&as_char, 1})).value_or(ByteIds::kNone);
  }
  add(tokens, model_.compose ? compose : AddedTokens::Normalize());
  for (Id id = 0; id < vocabulary_.size(); ++id) {
    const std::string& token = vocabulary_.token(id);
    // Added tokens are plain text, even if all characters are in the alphabet.
    const std::optional<std::string> bytes =
        added_.find(id) != nullptr ? std::nullopt : bytes_of_visible(token);
    bytes_.push_back(bytes.value_or(token));
    if (model_.ignore_merges && bytes) whole_words_.try_emplace(*bytes, id);
  }
}

void ByteLevelBpe::encode(std::string_view text, std::vector<Id>& ids) const {
  auto cache = caches_.borrow();
  IdBuffer buffer(ids);
  added_.split(
      text, [&](std::string_view part) { encode_part(part, *cache, buffer); },
      [&](Id id) { buffer.push(id); });
}

void ByteLevelBpe::encode_part(std::string_view part, WordCache& cache, IdBuffer& ids) const {
  std::string spaced;
  if (model_.prefix_space && !part.starts_with(' ')) part = spaced.append(1, ' ').append(part);
  const char* const end = part.data() + part.size();
  const auto push_word = [&](const std::vector<Id>& found) {
    for (const Id id : found) ids.push(id);
  };
  scan(model_.pattern, part, classes_, [&](std::string_view word) {
    if (word.size() > WordCache::kLongest) {
      push_word(encode_word(word));
      return;
    }
    const WordCache::Key key = WordCache::key(word, end);
    if (const WordCache::Entry* const known = cache.find(key)) {
      ids.push_some(known->ids, known->count());
      return;
    }
    const std::vector<Id> found = encode_word(word);
    push_word(found);
    std::array<Id, 4> kept;
    if (found.size() > kept.size()) return;
    kept.fill(WordCache::kNone);
    std::copy(found.begin(), found.end(), kept.begin());
    cache.insert(key, kept);
  });
}

std::vector<Id> ByteLevelBpe::encode_word(std::string_view word) const {
  if (model_.ignore_merges) {
    if (const auto whole = whole_words_.find(word); whole != whole_words_.end()) return {whole->second};
  }
  std::vector<Id> ids = byte_ids_(word);
  merge_word(model_.merges, ids);
  return ids;
}

void ByteLevelBpe::append_text(Id id, bool, std::string& text) const {
  if (id >= 0 && id < vocab_size()) text += bytes_[static_cast<std::size_t>(id)];
}

std::string ByteLevelBpe::describe() const {
  constexpr const char* kSplits[] = {"not split", "split as GPT-2 does", "split as Llama 3 does",
                                     "split as Qwen 2 does"};
  return std::string("byte-level BPE, ") + kSplits[static_cast<std::size_t>(model_.pattern)];
}

// Readers: tokenizer.json, or vocab.json and merges.txt.

namespace {

struct Known {
  std::string_view expression;
  Pattern pattern;
};

constexpr Known kKnown[] = {
    {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", Pattern::kGpt2},
    {R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", Pattern::kGpt2},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     Pattern::kLlama3},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     Pattern::kQwen2},
};

Pattern find_pattern(std::string_view expression, std::string_view document) {
  for (const Known& known : kKnown) {
    if (known.expression == expression) return known.pattern;
  }
  fail_input("{} splits by the pattern \"{}\"; it must be that of GPT-2, Llama 3 or Qwen 2", document,
             shown_name(expression));
}

void read_byte_level(const JsonField& part, ByteLevelModel& model) {
  model.pattern = part.flag("use_regex", true) ? Pattern::kGpt2 : Pattern::kNone;
  model.prefix_space = part.flag("add_prefix_space", true);
}

// A split by a pattern, then ByteLevel without one of its own.
void read_split(const JsonField& sequence, ByteLevelModel& model) {
  const std::vector<JsonField> steps = sequence["pretokenizers"].items();
  if (steps.size() == 1 && steps[0].type() == "ByteLevel") return read_byte_level(steps[0], model);
  if (steps.size() != 2 || steps[0].type() != "Split" || steps[1].type() != "ByteLevel") {
    sequence["pretokenizers"].refuse("be a Split and then ByteLevel");
  }
  const JsonField& split = steps[0];
  if (split["behavior"].text() != "Isolated") split["behavior"].refuse("be \"Isolated\"");
  require_off(split, "invert");
  require_off(steps[1], "add_prefix_space");
  if (steps[1].flag("use_regex", true)) steps[1].refuse("have use_regex = false after a Split");
  model.pattern = find_pattern(split["pattern"]["Regex"].text(), split.document());
}

void read_normal_form(const JsonField& part, ByteLevelModel& model) {
  const std::vector<JsonField> forms =
      part.type() == "Sequence" ? part["normalizers"].items() : std::vector{part};
  for (const JsonField& form : forms) {
    if (form.type() != "NFC") form["type"].refuse("be \"NFC\" for byte-level BPE");
  }
  model.compose = !forms.empty();
}

ByteLevelModel read_bpe(const JsonField& part) {
  check_bpe(part);
  require_empty(part, "continuing_subword_prefix");
  require_empty(part, "end_of_word_suffix");
  ByteLevelModel model;
  model.vocabulary = read_vocabulary(part["vocab"]);
  model.merges = read_merges(model.vocabulary, part["merges"]);
  model.ignore_merges = part.flag("ignore_merges", false);
  model.fuse_unknown = part.flag("fuse_unk", false);
  if (const std::optional<JsonField> unknown = part.find("unk_token")) {
    model.unknown = model.vocabulary.find(unknown->text());
    if (!model.unknown && !unknown->text().empty()) unknown->refuse("be in the vocabulary");
  }
  return model;
}

// Applies add_prefix_space of the classes of GPT-2 and Qwen 2.
void set_prefix_space(const CompanionConfig& companion, ByteLevelModel& model) {
  const std::optional<bool> given = companion.flag("add_prefix_space");
  if (model.pattern == Pattern::kGpt2 || model.pattern == Pattern::kNone) {
    if (given) model.prefix_space = *given;
    if (!given && companion.class_name() == "GPT2Tokenizer") model.prefix_space = false;
  } else if (given.value_or(false)) {
    // The space would precede every word.
    companion.find("add_prefix_space")->refuse("be false if a text is split as Qwen 2 or Llama 3 does");
  }
}

// Throws if the class of transformers has another splitter than the model.
void check_class(const CompanionConfig& companion, const ByteLevelModel& model) {
  const std::string name = companion.class_name();
  const bool is_gpt2 = name == "GPT2Tokenizer", is_qwen2 = name == "Qwen2Tokenizer";
  if (!is_gpt2 && !is_qwen2) return;
  const Pattern own = is_gpt2 ? Pattern::kGpt2 : Pattern::kQwen2;
  if (model.pattern == own && model.compose == is_qwen2 && !model.ignore_merges) return;
  companion.find("tokenizer_class")
      ->refuse(
          "be PreTrainedTokenizerFast here: this class of transformers splits otherwise than tokenizer.json");
}

// Adds the prefix and suffix that tokenizer_config.json asks for, if the class has them.
void add_ends(const CompanionConfig& companion, bool has_begin, SpecialTokens& tokens) {
  if (has_begin && tokens.ids.bos && companion.flag("add_bos_token", false))
    tokens.prefix = {*tokens.ids.bos};
  if (tokens.ids.eos && companion.flag("add_eos_token", false)) tokens.suffix = {*tokens.ids.eos};
}

}  // namespace

std::unique_ptr<Tokenizer> read_byte_level_bpe(const JsonField& root, const CompanionConfig& companion,
                                               SpecialTokens tokens) {
  ByteLevelModel model = read_bpe(root["model"]);
  if (const std::optional<JsonField> normalizer = root.find("normalizer"))
    read_normal_form(*normalizer, model);
  const JsonField words = root["pre_tokenizer"];
  if (words.type() == "ByteLevel") {
    read_byte_level(words, model);
  } else if (words.type() == "Sequence") {
    read_split(words, model);
  } else {
    words["type"].refuse("be ByteLevel, or a Sequence of Split and ByteLevel, for BPE");
  }
  if (const std::optional<JsonField> decoder = root.find("decoder");
      decoder && decoder->type() != "ByteLevel") {
    (*decoder)["type"].refuse("be ByteLevel for BPE");
  }
  if (!companion.keeps_json()) {
    check_class(companion, model);
    set_prefix_space(companion, model);
  }
  companion.complete(tokens, model.vocabulary);
  return std::make_unique<ByteLevelBpe>(std::move(model), std::move(tokens));
}

std::unique_ptr<Tokenizer> read_vocab_and_merges(const PlainFile& vocab, const PlainFile& merges,
                                                 const CompanionConfig& companion) {
  ByteLevelModel model;
  const std::string name = companion.class_name();
  const bool is_qwen = name == "Qwen2Tokenizer";
  if (is_qwen) {
    model.pattern = Pattern::kQwen2;
    model.compose = true;
  } else if (!name.empty() && name != "GPT2Tokenizer") {
    companion.find("tokenizer_class")
        ->refuse(
            "be GPT2Tokenizer or Qwen2Tokenizer with vocab.json and merges.txt; others need their "
            "tokenizer.json");
  }
  set_prefix_space(companion, model);
  const JsonDocument vocabulary(vocab.text, fmt::format("vocabulary '{}'", vocab.path));
  model.vocabulary = read_vocabulary(vocabulary.root());
  std::vector<std::string> lines = lines_of(merges.text);
  std::erase_if(lines, [](const std::string& line) { return line.empty() || line.starts_with("#version"); });
  model.merges = read_merges(model.vocabulary, lines, fmt::format("merges '{}'", merges.path));
  constexpr const char* kEnd = "<|endoftext|>";
  const char* const begin = is_qwen ? "pad_token" : "bos_token";
  SpecialTokens tokens;
  companion.complete(tokens, model.vocabulary, {{"unk_token", kEnd}, {"eos_token", kEnd}, {begin, kEnd}});
  add_ends(companion, !is_qwen || companion.special("bos_token"), tokens);
  return std::make_unique<ByteLevelBpe>(std::move(model), std::move(tokens));
}

}  // namespace twobw::tokenizer
