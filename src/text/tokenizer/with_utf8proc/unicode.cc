#include "text/tokenizer/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <map>

#include "text/tokenizer/unicode_versions.h"
#include "text/tokenizer/utf8.h"

namespace twobw::tokenizer {
namespace {

constexpr char32_t kCodes = 0x110000;

constexpr CodeRange kSpaces[] = {{0x9, 0xD},       {0x20, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},
                                 {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F},
                                 {0x205F, 0x205F}, {0x3000, 0x3000}};
// BERT's list, with its gap from 2B820 on.
constexpr CodeRange kIdeographs[] = {{0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},
                                     {0x20000, 0x2A6DF}, {0x2A700, 0x2B81F}, {0x2B920, 0x2CEAF},
                                     {0x2F800, 0x2FA1F}};

// What BERT drops or keeps unlike its category.
constexpr CodeRange kDropped[] = {{kReplacement, kReplacement}};
constexpr CodeRange kKept[] = {{'\t', '\n'}, {'\r', '\r'}};

// The first four classes are one choice; the others are bits of their own.
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
  change(letters_since_15(), kSplit, kLetter);
  change(numbers_since_15(), kSplit, kNumber);
  change(kIdeographs, 0, kIdeograph);
  change(marks_since_8(), kMark, 0);
  change(marks_until_8(), 0, kMark);
  change(punctuation_since_8(), kPunctuation, 0);
  change(punctuation_until_8(), 0, kPunctuation);
  change(controls_since_8(), kControl, 0);
  change(kDropped, 0, kControl);
  change(kKept, kControl, 0);
  return all;
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

void decompose(char32_t code, std::u32string& out) {
  if (code < 0xC0 || contains(unmoved_since_9(), code)) {
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
    if (code < 0x300 || contains(unmoved_since_9(), code)) return 0;
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
  for (const LowerCase& range : lower_case_since_15()) {
    if (code >= range.first && code <= range.last) {
      out.push_back(range.lower + (code - range.first));
      return;
    }
  }
  out.push_back(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code))));
}

}  // namespace twobw::tokenizer
