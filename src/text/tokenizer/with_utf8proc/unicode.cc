#include "text/tokenizer/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <span>

#include "core/base/error.h"
#include "text/tokenizer/unicode_versions.h"
#include "text/tokenizer/utf8.h"

namespace twobw::tokenizer {
namespace {

constexpr char32_t kCodes = 0x110000;

bool is_unmoved(char32_t code) {
  const auto after = std::ranges::upper_bound(kUnmovedSince9, code, {}, &CodeRange::first);
  return after != std::begin(kUnmovedSince9) && code <= std::prev(after)->last;
}

constexpr CodeRange kSpaces[] = {{0x9, 0xD},       {0x20, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},
                                 {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F},
                                 {0x205F, 0x205F}, {0x3000, 0x3000}};
// BERT's list, with its gap from 2B820 on.
constexpr CodeRange kIdeographs[] = {{0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},
                                     {0x20000, 0x2A6DF}, {0x2A700, 0x2B81F}, {0x2B920, 0x2CEAF},
                                     {0x2F800, 0x2FA1F}};

// Exceptions of BERT to the categories of control characters.
constexpr CodeRange kDropped[] = {{kReplacement, kReplacement}};
constexpr CodeRange kKept[] = {{'\t', '\n'}, {'\r', '\r'}};

// One of the first four classes.
std::uint8_t split_class(utf8proc_category_t category) {
  if (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) return kLetter;
  if (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO) return kNumber;
  return kOther;
}

std::uint8_t bert_classes(char32_t code, utf8proc_category_t category) {
  const bool ascii_sign = code > 0x20 && code < 0x7F && split_class(category) == kOther;
  const bool punctuation = category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
  std::uint8_t classes = 0;
  if (category == UTF8PROC_CATEGORY_MN) classes |= kMark;
  if (punctuation || ascii_sign) classes |= kPunctuation;
  if (category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF ||
      category == UTF8PROC_CATEGORY_CO) {
    classes |= kControl;
  }
  return classes;
}

std::vector<std::uint8_t> classes_of_all() {
  std::vector<std::uint8_t> all(kCodes);
  for (char32_t code = 0; code < kCodes; ++code) {
    const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
    all[code] = static_cast<std::uint8_t>(split_class(category) | bert_classes(code, category));
  }
  const auto change = [&all](std::span<const CodeRange> ranges, int remove, int add) {
    for (const CodeRange& range : ranges) {
      for (char32_t code = range.first; code <= range.last; ++code) {
        all[code] = static_cast<std::uint8_t>((all[code] & ~remove) | add);
      }
    }
  };
  constexpr int kSplit = kLetter | kNumber | kSpace | kOther;
  change(kSpaces, kSplit, kSpace);
  change(kLettersSince15, kSplit, kLetter);
  change(kNumbersSince15, kSplit, kNumber);
  change(kIdeographs, 0, kIdeograph);
  change(kMarksSince8, kMark, 0);
  change(kMarksUntil8, 0, kMark);
  change(kPunctuationSince8, kPunctuation, 0);
  change(kPunctuationUntil8, 0, kPunctuation);
  change(kControlsSince8, kControl, 0);
  change(kDropped, 0, kControl);
  change(kKept, kControl, 0);
  return all;
}

// True if all characters are below U+0300, which has no marks and no characters that change in form C.
bool surely_composed(std::string_view text) {
  for (const char byte : text) {
    if (static_cast<std::uint8_t>(byte) >= 0xCC) return false;
  }
  return true;
}

void append_composed(std::string_view valid, std::string& out) {
  if (surely_composed(valid)) {
    out += valid;
    return;
  }
  utf8proc_uint8_t* found = nullptr;
  const utf8proc_ssize_t size = utf8proc_map(
      reinterpret_cast<const utf8proc_uint8_t*>(valid.data()), static_cast<utf8proc_ssize_t>(valid.size()),
      &found, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(found, &std::free);
  if (size < 0) fail_run("normal form C of {} bytes failed: {}", valid.size(), utf8proc_errmsg(size));
  out.append(reinterpret_cast<const char*>(found), static_cast<std::size_t>(size));
}

}  // namespace

CharacterClasses::CharacterClasses() : block_() {
  const std::vector<std::uint8_t> all = classes_of_all();
  std::map<Block, std::uint16_t> known;
  for (std::size_t i = 0; i < block_.size(); ++i) {
    Block block;
    std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(i * block.size()), block.size(), block.begin());
    const auto [found, added] = known.try_emplace(block, static_cast<std::uint16_t>(blocks_.size()));
    if (added) blocks_.push_back(block);
    block_[i] = found->second;
  }
}

const CharacterClasses& character_classes() {
  static const CharacterClasses classes;
  return classes;
}

bool is_word_character(char32_t code) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  const bool circled_letter = (code >= 0x24B6 && code <= 0x24E9) || (code >= 0x1F130 && code <= 0x1F149) ||
                              (code >= 0x1F150 && code <= 0x1F169) || (code >= 0x1F170 && code <= 0x1F189);
  const bool joiner = code == 0x200C || code == 0x200D;
  return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NL) ||
         category == UTF8PROC_CATEGORY_PC || circled_letter || joiner;
}

std::string compose(std::string_view text) {
  if (surely_composed(text)) return std::string(text);
  std::string out;
  out.reserve(text.size());
  // Invalid bytes and unmoved characters separate the parts to compose.
  const char* const end = text.data() + text.size();
  const char* begin = text.data();
  for (const char* at = begin; at < end;) {
    const Character next = read_character(at, end);
    const char* const after = at + next.length;
    if (!next.valid || is_unmoved(next.code)) {
      append_composed({begin, static_cast<std::size_t>(at - begin)}, out);
      out.append(at, after);
      begin = after;
    }
    at = after;
  }
  append_composed({begin, static_cast<std::size_t>(end - begin)}, out);
  return out;
}

void decompose(char32_t code, std::u32string& out) {
  if (code < 0xC0 || is_unmoved(code)) {
    out.push_back(code);
    return;
  }
  std::array<utf8proc_int32_t, 32> parts{};
  int boundary = 0;
  const utf8proc_ssize_t count = utf8proc_decompose_char(
      static_cast<utf8proc_int32_t>(code), parts.data(), static_cast<utf8proc_ssize_t>(parts.size()),
      static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_STABLE), &boundary);
  if (count < 1 || count > static_cast<utf8proc_ssize_t>(parts.size())) {
    out.push_back(code);
    return;
  }
  for (utf8proc_ssize_t i = 0; i < count; ++i) {
    out.push_back(static_cast<char32_t>(parts[static_cast<std::size_t>(i)]));
  }
}

void order_marks(std::u32string& text) {
  const auto rank = [](char32_t code) {
    if (code < 0x300 || is_unmoved(code)) return 0;
    return static_cast<int>(utf8proc_get_property(static_cast<utf8proc_int32_t>(code))->combining_class);
  };
  for (auto at = text.begin(); at != text.end();) {
    if (rank(*at) == 0) {
      ++at;
      continue;
    }
    const auto end = std::find_if(at, text.end(), [&](char32_t code) { return rank(code) == 0; });
    std::stable_sort(at, end, [&](char32_t a, char32_t b) { return rank(a) < rank(b); });
    at = end;
  }
}

void append_lower_case(char32_t code, std::u32string& out) {
  constexpr char32_t kDottedCapitalI = 0x130;
  if (code < 0x80) {
    out.push_back(code >= 'A' && code <= 'Z' ? code + 0x20 : code);
    return;
  }
  if (code == kDottedCapitalI) {
    out += U"i\u0307";
    return;
  }
  for (const LowerCase& range : kLowerCaseSince15) {
    if (code >= range.first && code <= range.last) {
      out.push_back(range.lower + (code - range.first));
      return;
    }
  }
  out.push_back(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code))));
}

}  // namespace twobw::tokenizer
