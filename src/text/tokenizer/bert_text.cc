#include "text/tokenizer/bert_text.h"

#include "text/tokenizer/unicode.h"
#include "text/tokenizer/utf8.h"

namespace twobw::tokenizer {
namespace {

// Normalises character by character. Characters beyond ASCII wait, since the marks among them are put in
// order together before they are stripped or kept.
class BertWriter {
 public:
  explicit BertWriter(const BertNormalizer& options, std::size_t size)
      : options_(options), classes_(character_classes()) {
    out_.reserve(size);
  }

  void add(char32_t code) {
    const std::uint8_t classes = classes_[code];
    if (options_.clean && classes & kControl) return;
    if (options_.clean && classes & kSpace) code = ' ';
    if (options_.space_ideographs && classes & kIdeograph) {
      put(' ');
      put(code);
      put(' ');
    } else {
      put(code);
    }
  }

  std::string finish() {
    flush();
    return std::move(out_);
  }

 private:
  void put(char32_t code) {
    if (code < 0x80) {
      if (!waiting_.empty()) flush();
      const bool capital = options_.lower_case && code >= 'A' && code <= 'Z';
      out_.push_back(static_cast<char>(capital ? code + 0x20 : code));
    } else if (options_.strip_accents) {
      decompose(code, waiting_);
    } else {
      waiting_.push_back(code);
    }
  }

  void flush() {
    if (options_.strip_accents) {
      order_marks(waiting_);
      std::erase_if(waiting_, [&](char32_t code) { return classes_[code] & kMark; });
    }
    if (options_.lower_case) {
      lowered_.clear();
      for (const char32_t code : waiting_) append_lower_case(code, lowered_);
      waiting_.swap(lowered_);
    }
    for (const char32_t code : waiting_) append_character(code, out_);
    waiting_.clear();
  }

  const BertNormalizer& options_;
  const CharacterClasses& classes_;
  std::u32string waiting_, lowered_;
  std::string out_;
};

}  // namespace

std::string BertNormalizer::operator()(std::string_view text) const {
  BertWriter writer(*this, text.size());
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at < end;) {
    const Character next = read_character(at, end);
    writer.add(next.code);
    at += next.length;
  }
  return writer.finish();
}

void split_bert_words(std::string_view text, const std::function<void(std::string_view)>& emit) {
  const CharacterClasses& classes = character_classes();
  const char* const end = text.data() + text.size();
  const char* word = text.data();
  const auto emit_until = [&](const char* stop) {
    if (stop > word) emit({word, static_cast<std::size_t>(stop - word)});
  };
  for (const char* at = text.data(); at < end;) {
    const Character next = read_character(at, end);
    const char* const after = at + next.length;
    const std::uint8_t kind = classes[next.code];
    if (kind & (kSpace | kPunctuation)) {
      emit_until(at);
      word = at;
      if (kind & kPunctuation) emit_until(after);
      word = after;
    }
    at = after;
  }
  emit_until(end);
}

}  // namespace twobw::tokenizer
