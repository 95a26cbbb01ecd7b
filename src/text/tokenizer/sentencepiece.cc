// Sentencepiece models, by the library. Two additions follow transformers: control and user-defined pieces in
// a text ("</s>") are recognized; and if the model keeps spaces, as Llama's does, no space is prepended to a
// text that begins with one or to the text after a control piece.
#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <unordered_set>

#include "core/base/error.h"
#include "core/base/text_file.h"
#include "text/tokenizer/character_bpe.h"
#include "text/tokenizer/readers.h"
#include "text/tokenizer/sentencepiece_library.h"
#include "text/tokenizer/utf8.h"

namespace twobw::tokenizer {
namespace {

using Make = SentencepieceLibrary* (*)();

// Never closed: its objects may live as long as the program.
Make open_module() {
  // Prefers the module's own symbols to those already loaded; the address sanitizer rejects the flag.
#ifdef __SANITIZE_ADDRESS__
  constexpr int kOwnSymbols = 0;
#else
  constexpr int kOwnSymbols = RTLD_DEEPBIND;
#endif
  // Next to the program, or one folder above it for tests.
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  for (const std::filesystem::path& place : {folder, folder.parent_path()}) {
    void* const module =
        dlopen((place / "twobw_sentencepiece.so").c_str(), RTLD_NOW | RTLD_LOCAL | kOwnSymbols);
    if (module) return reinterpret_cast<Make>(dlsym(module, "twobw_make_sentencepiece"));
  }
  return nullptr;
}

std::unique_ptr<SentencepieceLibrary> make_library() {
  static const Make make = open_module();
  return std::unique_ptr<SentencepieceLibrary>(make ? make() : nullptr);
}

// Settings of a model, a protocol buffer, that the library does not expose.
struct SentencepieceSpec {
  bool add_prefix = true;      // prepends a space to the text
  bool squeeze_spaces = true;  // collapses runs of spaces and trims the ends
  std::unordered_set<Id> user_defined;
};

// Field numbers in the messages ModelProto, SentencePiece and NormalizerSpec, and a value of
// SentencePiece.type.
constexpr std::uint64_t kPiece = 1;
constexpr std::uint64_t kPieceType = 3;
constexpr std::uint64_t kUserDefined = 4;
constexpr std::uint64_t kNormalizerSpec = 3;
constexpr std::uint64_t kAddDummyPrefix = 3;
constexpr std::uint64_t kRemoveExtraWhitespaces = 4;

struct Field {
  std::uint64_t number;
  std::uint64_t value;    // of an integer
  std::string_view text;  // of a message or string
};

// Reads the fields of a message one by one.
class MessageReader {
 public:
  explicit MessageReader(std::string_view message) : rest_(message) {}

  // Nothing at the end and for invalid bytes.
  std::optional<Field> next() {
    const std::optional<std::uint64_t> tag = number();
    if (!tag) return std::nullopt;
    const std::uint64_t wire = *tag & 7;
    Field field{*tag >> 3, 0, {}};
    std::uint64_t size = wire == kFixed64 ? 8 : 4;
    if (wire == kVarint || wire == kBytes) {
      const std::optional<std::uint64_t> value = number();
      if (!value) return std::nullopt;
      (wire == kBytes ? size : field.value) = *value;
    } else if (wire != kFixed64 && wire != kFixed32) {
      return std::nullopt;
    }
    if (wire == kVarint) return field;
    if (size > rest_.size()) return std::nullopt;
    field.text = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return field;
  }

 private:
  static constexpr std::uint64_t kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5;  // wire types

  // Varint: seven bits per byte, lowest first.
  std::optional<std::uint64_t> number() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<std::uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    return std::nullopt;
  }

  std::string_view rest_;
};

// Returns the defaults for invalid bytes, which the library rejects.
SentencepieceSpec read_sentencepiece_spec(std::string_view model) {
  SentencepieceSpec spec;
  Id pieces = 0;
  MessageReader fields(model);
  while (const std::optional<Field> field = fields.next()) {
    if (field->number != kPiece && field->number != kNormalizerSpec) continue;
    const bool is_piece = field->number == kPiece;
    MessageReader inner(field->text);
    while (const std::optional<Field> setting = inner.next()) {
      if (is_piece) {
        if (setting->number == kPieceType && setting->value == kUserDefined) spec.user_defined.insert(pieces);
      } else if (setting->number == kAddDummyPrefix) {
        spec.add_prefix = setting->value != 0;
      } else if (setting->number == kRemoveExtraWhitespaces) {
        spec.squeeze_spaces = setting->value != 0;
      }
    }
    if (is_piece) ++pieces;
  }
  return spec;
}

// Appends a field that disables the prefix: the last occurrence of a field wins.
std::string without_prefix(std::string model) {
  constexpr char kFalse[] = {kAddDummyPrefix << 3, 0};
  constexpr char kMessage[] = {kNormalizerSpec << 3 | 2, sizeof kFalse};
  model.append(kMessage, sizeof kMessage);
  model.append(kFalse, sizeof kFalse);
  return model;
}

class Sentencepiece : public VocabularyTokenizer {
 public:
  Sentencepiece(std::unique_ptr<SentencepieceLibrary> library, const std::string& model,
                const std::string& path, const CompanionConfig& companion,
                const std::optional<JsonField>& json)
      : spec_(read_sentencepiece_spec(model)), library_(std::move(library)) {
    spec_.add_prefix = companion.flag("add_prefix_space", spec_.add_prefix);
    own_prefix_ = spec_.add_prefix && !spec_.squeeze_spaces;
    if (!library_->load(own_prefix_ || !spec_.add_prefix ? without_prefix(model) : model)) {
      fail_input("tokenizer '{}' is not a sentencepiece model", path);
    }
    SpecialTokens tokens = json ? read_special_tokens(*json) : SpecialTokens();
    if (json) check_same(*json, path);
    for (Id id = 0; id < library_->size(); ++id) read_piece(id, tokens.added);
    companion.complete(tokens, vocabulary_);
    add(tokens, nullptr);
    texts_.resize(static_cast<std::size_t>(vocabulary_.size()));
    for (const AddedToken& token : tokens.added) texts_[static_cast<std::size_t>(token.id)] = token.content;
    set_specials(companion);
    if (!json) set_ends(companion);
  }

  void encode(std::string_view text, std::vector<Id>& ids) const override {
    const std::string valid = replace_invalid(text);
    bool first = true;
    added_.split(
        valid,
        [&](std::string_view part) {
          encode_part(part, first, ids);
          first = false;
        },
        [&](Id id) {
          ids.push_back(id);
          first = false;
        });
  }

  void append_text(Id id, bool first, std::string& text) const override {
    if (id < 0 || id >= vocab_size()) return;
    const std::string_view piece = texts_[static_cast<std::size_t>(id)];
    text += first && spec_.add_prefix && piece.starts_with(' ') ? piece.substr(1) : piece;
  }

  std::string describe() const override { return "sentencepiece"; }

 private:
  // Throws unless the tokenizer.json next to the model has the same pieces.
  void check_same(const JsonField& json, const std::string& path) const {
    const Vocabulary theirs = read_vocabulary(json["model"]["vocab"]);
    for (Id id = 0; id < library_->size(); ++id) {
      if (theirs.find(library_->piece(id)) == id) continue;
      fail_input("{} and '{}' differ in the token {}; they must be of one tokenizer", json.document(), path,
                 id);
    }
  }

  void read_piece(Id id, std::vector<AddedToken>& added) {
    const std::string& piece = library_->piece(id);
    vocabulary_.add(id, piece);
    const bool control = library_->is_control(id) || library_->is_unknown(id);
    const bool defined = spec_.user_defined.contains(id);
    texts_.push_back(control || defined ? piece : text_of(id));
    const auto is_there = [&](const AddedToken& token) { return token.content == piece; };
    if ((control || defined) && std::ranges::none_of(added, is_there))
      added.push_back({.id = id, .content = piece, .special = control});
  }

  // Uses special pieces of the model unless companion files name others, and no other special ids.
  void set_specials(const CompanionConfig& companion) {
    const auto chosen = [&](const char* key, std::optional<Id> named, int own) {
      return companion.special(key) ? named : own >= 0 ? std::optional<Id>(own) : std::nullopt;
    };
    special_ = {.bos = chosen("bos_token", special_.bos, library_->bos()),
                .eos = chosen("eos_token", special_.eos, library_->eos()),
                .pad = chosen("pad_token", special_.pad, library_->pad()),
                .unk = chosen("unk_token", special_.unk, library_->unk())};
  }

  void set_ends(const CompanionConfig& companion) {
    if (special_.bos && companion.flag("add_bos_token", true)) prefix_ = {*special_.bos};
    if (special_.eos && companion.flag("add_eos_token", false)) suffix_ = {*special_.eos};
  }

  std::string text_of(Id id) const {
    const std::string& piece = library_->piece(id);
    if (!library_->is_byte(id)) return unmark_spaces(piece);
    return std::string(1, static_cast<char>(std::stoi(piece.substr(3, 2), nullptr, 16)));  // <0x41>
  }

  void encode_part(std::string_view part, bool first, std::vector<Id>& ids) const {
    const bool spaced = part.starts_with(' ') || part.starts_with(kSpaceMark);
    std::string prefixed;
    if (own_prefix_ && first && !spaced) part = prefixed.append(1, ' ').append(part);
    std::vector<int> found;
    const std::string problem = library_->encode(part, found);
    if (!problem.empty()) fail_run("sentencepiece cannot encode {} bytes: {}", part.size(), problem);
    ids.insert(ids.end(), found.begin(), found.end());
  }

  SentencepieceSpec spec_;
  bool own_prefix_ = false;
  std::unique_ptr<SentencepieceLibrary> library_;
  std::vector<std::string> texts_;  // of every id
};

}  // namespace

std::unique_ptr<Tokenizer> read_sentencepiece(const std::string& path, const CompanionConfig& companion,
                                              const std::optional<JsonField>& json) {
  auto library = make_library();
  if (!library) {
    fail_input(
        "tokenizer '{}' needs sentencepiece, which this build lacks: install libsentencepiece-dev and build "
        "again",
        path);
  }
  return std::make_unique<Sentencepiece>(
      std::move(library), read_model_text("tokenizer", path, kLargestTable), path, companion, json);
}

}  // namespace twobw::tokenizer
