#include "text/tokenizer/sentencepiece.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/text_file.h"
#include "text/tokenizer/added_tokens.h"
#include "text/tokenizer/json_frame.h"
#include "text/tokenizer/sentencepiece_library.h"
#include "text/tokenizer/sentencepiece_spec.h"
#include "text/tokenizer/space_mark.h"
#include "text/tokenizer/tokenizer_json.h"
#include "text/tokenizer/utf8.h"
#include "text/tokenizer/vocabulary.h"

namespace twobw::tokenizer {
namespace {

std::optional<Id> id_or_none(int id) {
  return id >= 0 ? std::optional<Id>(id) : std::nullopt;
}

class Sentencepiece : public Tokenizer {
 public:
  Sentencepiece(std::unique_ptr<SentencepieceLibrary> library, const std::string& model,
                const std::string& path, const Beside& beside, const std::optional<JsonPart>& json)
      : spec_(read_sentencepiece_spec(model)), library_(std::move(library)) {
    spec_.add_prefix = beside.flag("add_prefix_space").value_or(spec_.add_prefix);
    own_prefix_ = spec_.add_prefix && !spec_.squeeze_spaces;
    if (!library_->load(own_prefix_ || !spec_.add_prefix ? without_prefix(model) : model)) {
      fail_input("tokenizer '{}' is no sentencepiece model", path);
    }
    Frame frame = json ? read_frame(*json) : Frame();
    if (json) check_same(*json, path);
    for (Id id = 0; id < library_->size(); ++id) read_piece(id, frame);
    complete_frame(beside, vocabulary_, frame);
    for (const AddedToken& token : frame.added) {
      vocabulary_.add(token.id, token.content);
      texts_.resize(static_cast<std::size_t>(vocabulary_.size()));
      texts_[static_cast<std::size_t>(token.id)] = token.content;
    }
    added_.emplace(frame.added, nullptr);
    set_specials(beside, frame);
    prefix_ = std::move(frame.prefix);
    suffix_ = std::move(frame.suffix);
    cuts_front_ = frame.cuts_front;
    if (!json) set_ends(beside);
  }

  void encode(std::string_view text, std::vector<Id>& ids) const override {
    const std::string valid = replace_invalid(text);
    bool first = true;
    added_->split(
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

  std::string token(Id id) const override { return vocabulary_.token(id); }
  std::optional<Id> id(std::string_view token) const override { return vocabulary_.find(token); }
  bool is_special(Id id) const override {
    const AddedToken* const found = added_->find(id);
    return found != nullptr && found->special;
  }
  Id vocab_size() const override { return vocabulary_.size(); }
  std::string describe() const override { return "sentencepiece"; }

 private:
  // A tokenizer.json beside the model must have its pieces.
  void check_same(const JsonPart& json, const std::string& path) const {
    const Vocabulary theirs = read_vocabulary(json["model"]["vocab"]);
    for (Id id = 0; id < library_->size(); ++id) {
      if (theirs.find(library_->piece(id)) == id) continue;
      fail_input("{} and '{}' differ in the token {}; they must be of one tokenizer", json.document(), path,
                 id);
    }
  }

  void read_piece(Id id, Frame& frame) {
    const std::string& piece = library_->piece(id);
    vocabulary_.add(id, piece);
    const bool control = library_->is_control(id) || library_->is_unknown(id);
    const bool defined = spec_.user_defined.contains(id);
    texts_.push_back(control || defined ? piece : text_of(id));
    const auto is_there = [&](const AddedToken& token) { return token.content == piece; };
    if ((control || defined) && std::ranges::none_of(frame.added, is_there))
      frame.added.push_back({.id = id, .content = piece, .special = control});
  }

  // The model's own, where the files beside it name no others.
  void set_specials(const Beside& beside, const Frame& frame) {
    const auto chosen = [&](const char* key, std::optional<Id> named, int own) {
      return beside.special(key) ? named : id_or_none(own);
    };
    special_ = {.bos = chosen("bos_token", frame.special.bos, library_->bos()),
                .eos = chosen("eos_token", frame.special.eos, library_->eos()),
                .pad = chosen("pad_token", frame.special.pad, library_->pad()),
                .unk = chosen("unk_token", frame.special.unk, library_->unk())};
  }

  void set_ends(const Beside& beside) {
    if (special_.bos && beside.flag("add_bos_token").value_or(true)) prefix_ = {*special_.bos};
    if (special_.eos && beside.flag("add_eos_token").value_or(false)) suffix_ = {*special_.eos};
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
  Vocabulary vocabulary_;
  std::optional<AddedTokens> added_;
  std::vector<std::string> texts_;  // of every id
};

}  // namespace

std::unique_ptr<Tokenizer> load_sentencepiece(const std::string& path, const Beside& beside,
                                              const std::optional<JsonPart>& json) {
  auto library = make_sentencepiece_library();
  if (!library) {
    fail_input(
        "tokenizer '{}' needs sentencepiece, which this build lacks: install libsentencepiece-dev and build "
        "again",
        path);
  }
  return std::make_unique<Sentencepiece>(
      std::move(library), read_model_text("tokenizer", path, kLargestTable), path, beside, json);
}

}  // namespace twobw::tokenizer
