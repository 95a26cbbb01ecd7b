#include "tokenizer/sentencepiece.h"

#include "base/error.h"
#include "base/text_file.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/sentencepiece_library.h"
#include "tokenizer/sentencepiece_spec.h"
#include "tokenizer/utf8.h"
#include "tokenizer/vocabulary.h"

namespace twobw::tokenizer {
namespace {

constexpr std::string_view kSpaceMark = "\u2581";  // how pieces write a space

std::optional<Id> id_or_none(int id) {
  return id >= 0 ? std::optional<Id>(id) : std::nullopt;
}

std::string with_spaces(std::string_view piece) {
  std::string text;
  while (!piece.empty()) {
    const std::size_t at = std::min(piece.find(kSpaceMark), piece.size());
    text += piece.substr(0, at);
    if (at == piece.size()) break;
    text += ' ';
    piece.remove_prefix(at + kSpaceMark.size());
  }
  return text;
}

class Sentencepiece : public Tokenizer {
 public:
  Sentencepiece(std::unique_ptr<SentencepieceLibrary> library, const std::string& model,
                const std::string& path)
      : spec_(read_sentencepiece_spec(model)), library_(std::move(library)) {
    own_prefix_ = spec_.add_prefix && !spec_.squeeze_spaces;
    if (!library_->load(own_prefix_ ? without_prefix(model) : model)) {
      fail_input("tokenizer '{}' is no sentencepiece model", path);
    }
    std::vector<AddedToken> added;
    for (Id id = 0; id < library_->size(); ++id) {
      const std::string& piece = library_->piece(id);
      vocabulary_.add(id, piece);
      const bool control = library_->is_control(id) || library_->is_unknown(id);
      const bool defined = spec_.user_defined.contains(id);
      if (control || defined) added.push_back({.id = id, .content = piece, .special = control});
      texts_.push_back(control || defined ? piece : text_of(id));
    }
    added_.emplace(added, nullptr);
    special_ = {.bos = id_or_none(library_->bos()),
                .eos = id_or_none(library_->eos()),
                .pad = id_or_none(library_->pad()),
                .unk = id_or_none(library_->unk())};
    if (special_.bos) prefix_ = {*special_.bos};
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
  std::string text_of(Id id) const {
    const std::string& piece = library_->piece(id);
    if (!library_->is_byte(id)) return with_spaces(piece);
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

std::unique_ptr<Tokenizer> load_sentencepiece(const std::string& path) {
  auto library = make_sentencepiece_library();
  if (!library) {
    fail_input(
        "tokenizer '{}' needs sentencepiece, which this build lacks: install libsentencepiece-dev and build "
        "again",
        path);
  }
  return std::make_unique<Sentencepiece>(std::move(library), read_text("tokenizer", path), path);
}

}  // namespace twobw::tokenizer
