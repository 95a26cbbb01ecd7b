// Pre-tokenization: scan(pattern, text, classes, emit) calls emit(word) for every word of a text, in order.
// Byte-level BPE never merges across words. Files name the pattern as a regular expression; the common ones
// are scanners written by hand, many times faster than a regular-expression engine. They are templates, so
// that looking up a word and finding the next one share a loop.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "text/tokenizer/unicode.h"
#include "text/tokenizer/utf8.h"

namespace twobw::tokenizer {

// In the order of ByteLevelBpe::describe().
enum class Pattern {
  kNone,    // the text is one word
  kGpt2,    // words, numbers and signs, each with one leading space
  kLlama3,  // numbers of up to three digits, words with one leading sign, line ends with the preceding sign
  kQwen2,   // as kLlama3, but digits one by one
};

// Character classes and positions of a text.
class Cursor {
 public:
  Cursor(std::string_view text, const CharacterClasses& classes)
      : end_(text.data() + text.size()), classes_(classes) {}

  // Class and length of a character; class 0 at the end.
  struct Seen {
    std::uint8_t classes;
    int length;
  };

  Seen look(const char* at) const {
    if (at >= end_) return {0, 0};
    if (static_cast<std::uint8_t>(*at) < 0x80) return {kAscii[static_cast<std::uint8_t>(*at)], 1};
    const Character next = read_character(at, end_);
    return {classes_[next.code], next.length};
  }

  // First position from `at` on with a character outside of these classes.
  template <int kClasses>
  const char* skip(const char* at) const {
    for (;;) {
      while (at < end_ && kAscii[static_cast<std::uint8_t>(*at)] & kClasses) ++at;
      if (at >= end_ || static_cast<std::uint8_t>(*at) < 0x80) return at;
      const Character next = read_character(at, end_);
      if (!(classes_[next.code] & kClasses)) return at;
      at += next.length;
    }
  }

  // Start of the last character before `at`, which is a space.
  static const char* back(const char* at) {
    do --at;
    while (continues_character(*at));
    return at;
  }

  const char* end() const { return end_; }
  bool is(const char* at, char byte) const { return at < end_ && *at == byte; }

 private:
  // Non-ASCII bytes have class 0.
  static constexpr std::array<std::uint8_t, 256> kAscii = [] {
    std::array<std::uint8_t, 256> table{};
    for (std::size_t c = 0; c < 0x80; ++c) {
      const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
      const bool space = c == ' ' || (c >= 9 && c <= 13);
      table[c] = letter ? kLetter : c >= '0' && c <= '9' ? kNumber : space ? kSpace : kOther;
    }
    return table;
  }();

  const char* end_;
  const CharacterClasses& classes_;
};

// End of 's, 't, 'm, 'd, 're, 've or 'll at the apostrophe `at`, or `at` itself.
template <bool kAnyCase>
const char* skip_contraction(const Cursor& cursor, const char* at) {
  const auto letter = [&](int i) {
    const char* const place = at + i;
    if (place >= cursor.end()) return '\0';
    return kAnyCase && *place >= 'A' && *place <= 'Z' ? static_cast<char>(*place + 0x20) : *place;
  };
  const char first = letter(1);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
  const char second = letter(2);
  if ((first == 'r' || first == 'v') && second == 'e') return at + 3;
  if (first == 'l' && second == 'l') return at + 3;
  // The long s is an s when case is ignored.
  if (kAnyCase && first == '\xC5' && cursor.is(at + 2, '\xBF')) return at + 3;
  return at;
}

// End of the spaces at `at`, a space of `length` bytes. Before a word the last of several spaces is left to
// the word.
inline const char* skip_spaces(const Cursor& cursor, const char* at, int length) {
  const char* const stop = cursor.skip<kSpace>(at + length);
  if (stop == cursor.end() || stop == at + length) return stop;
  return Cursor::back(stop);
}

inline const char* next_gpt2(const Cursor& cursor, const char* at) {
  if (*at == '\'') {
    const char* const stop = skip_contraction<false>(cursor, at);
    if (stop != at) return stop;
  }
  const char* const word = at + (*at == ' ' ? 1 : 0);
  const Cursor::Seen first = cursor.look(word);
  if (first.classes & kLetter) return cursor.skip<kLetter>(word + first.length);
  if (first.classes & kNumber) return cursor.skip<kNumber>(word + first.length);
  if (first.classes & kOther) return cursor.skip<kOther>(word + first.length);
  return skip_spaces(cursor, at, word > at ? 1 : first.length);
}

template <int kDigits>
const char* next_cl100k(const Cursor& cursor, const char* at) {
  if (*at == '\'') {
    const char* const stop = skip_contraction<true>(cursor, at);
    if (stop != at) return stop;
  }
  const Cursor::Seen first = cursor.look(at);
  const char* const second = at + first.length;
  if (first.classes & kLetter) return cursor.skip<kLetter>(second);
  if (first.classes & kNumber) {
    const char* stop = second;
    for (int digit = 1; digit < kDigits; ++digit) {
      const Cursor::Seen next = cursor.look(stop);
      if (!(next.classes & kNumber)) break;
      stop += next.length;
    }
    return stop;
  }
  const Cursor::Seen next = cursor.look(second);
  const auto is_line_end = [&](const char* place) {
    return cursor.is(place, '\r') || cursor.is(place, '\n');
  };
  if (next.classes & kLetter && !is_line_end(at)) return cursor.skip<kLetter>(second + next.length);
  const bool signs = first.classes & kOther || (*at == ' ' && next.classes & kOther);
  if (signs) {
    const char* stop = cursor.skip<kOther>(second);
    while (is_line_end(stop)) ++stop;
    return stop;
  }
  // Spaces, up to their last line end, if any.
  const char* const stop = cursor.skip<kSpace>(second);
  for (const char* place = stop; place > at; --place) {
    if (is_line_end(place - 1)) return place;
  }
  return stop == cursor.end() || stop == second ? stop : Cursor::back(stop);
}

template <typename Next, typename Emit>
void scan_by(const Next& next, std::string_view text, const CharacterClasses& classes, Emit&& emit) {
  const Cursor cursor(text, classes);
  for (const char* at = text.data(); at < cursor.end();) {
    const char* const stop = next(cursor, at);
    emit(std::string_view(at, static_cast<std::size_t>(stop - at)));
    at = stop;
  }
}

template <typename Emit>
void scan(Pattern pattern, std::string_view text, const CharacterClasses& classes, Emit&& emit) {
  const auto by = [&](const auto& next) { scan_by(next, text, classes, emit); };
  switch (pattern) {
    case Pattern::kNone:
      if (!text.empty()) emit(text);
      break;
    case Pattern::kGpt2:
      by([](const Cursor& cursor, const char* at) { return next_gpt2(cursor, at); });
      break;
    case Pattern::kLlama3:
      by([](const Cursor& cursor, const char* at) { return next_cl100k<3>(cursor, at); });
      break;
    case Pattern::kQwen2:
      by([](const Cursor& cursor, const char* at) { return next_cl100k<1>(cursor, at); });
      break;
  }
}

}  // namespace twobw::tokenizer
