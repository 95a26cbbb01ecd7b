#include "text/tokenizer/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <span>

#include "core/base/error.h"
#include "text/tokenizer/utf8.h"

namespace twobw::tokenizer {
namespace {

// Code points whose class depends on the version of Unicode. The splitters follow version 16 and BERT's
// normalizer version 8, as the libraries used with the published vocabularies do, for any version of utf8proc
// (checked with 15 and later).

struct CodeRange {
  char32_t first, last;
};

struct LowerCase {
  char32_t first, last, lower;  // `lower` belongs to `first`
};

constexpr CodeRange kLettersSince15[] = {
    {0x1C89, 0x1C8A},   {0xA7CB, 0xA7CD},   {0xA7DA, 0xA7DC},   {0x105C0, 0x105F3}, {0x10D4A, 0x10D65},
    {0x10D6F, 0x10D85}, {0x10EC2, 0x10EC4}, {0x11380, 0x11389}, {0x1138B, 0x1138B}, {0x1138E, 0x1138E},
    {0x11390, 0x113B5}, {0x113B7, 0x113B7}, {0x113D1, 0x113D1}, {0x113D3, 0x113D3}, {0x11BC0, 0x11BE0},
    {0x13460, 0x143FA}, {0x16100, 0x1611D}, {0x16D40, 0x16D6C}, {0x18CFF, 0x18CFF}, {0x1E5D0, 0x1E5ED},
    {0x1E5F0, 0x1E5F0}, {0x2EBF0, 0x2EE5D},
};

constexpr CodeRange kNumbersSince15[] = {
    {0x10D40, 0x10D49}, {0x116D0, 0x116E3}, {0x11BF0, 0x11BF9}, {0x16130, 0x16139},
    {0x16D70, 0x16D79}, {0x1CCF0, 0x1CCF9}, {0x1E5F1, 0x1E5FA},
};

// BERT's classes in version 8.
constexpr CodeRange kMarksSince8[] = {
    {0x7FD, 0x7FD},     {0x897, 0x89F},     {0x8CA, 0x8E1},     {0x9FE, 0x9FE},     {0xAFA, 0xAFF},
    {0xB55, 0xB55},     {0xC04, 0xC04},     {0xC3C, 0xC3C},     {0xD00, 0xD00},     {0xD3B, 0xD3C},
    {0xD81, 0xD81},     {0xEBA, 0xEBA},     {0xECE, 0xECE},     {0x180F, 0x180F},   {0x1885, 0x1886},
    {0x1ABF, 0x1ACE},   {0x1DF6, 0x1DFB},   {0xA82C, 0xA82C},   {0xA8C5, 0xA8C5},   {0xA8FF, 0xA8FF},
    {0xA9BD, 0xA9BD},   {0x10D24, 0x10D27}, {0x10D69, 0x10D6D}, {0x10EAB, 0x10EAC}, {0x10EFC, 0x10EFF},
    {0x10F46, 0x10F50}, {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x11073, 0x11074}, {0x110C2, 0x110C2},
    {0x111C9, 0x111C9}, {0x111CF, 0x111CF}, {0x1123E, 0x1123E}, {0x11241, 0x11241}, {0x1133B, 0x1133B},
    {0x113BB, 0x113C0}, {0x113CE, 0x113CE}, {0x113D0, 0x113D0}, {0x113D2, 0x113D2}, {0x113E1, 0x113E2},
    {0x11438, 0x1143F}, {0x11442, 0x11444}, {0x11446, 0x11446}, {0x1145E, 0x1145E}, {0x1182F, 0x11837},
    {0x11839, 0x1183A}, {0x1193B, 0x1193C}, {0x1193E, 0x1193E}, {0x11943, 0x11943}, {0x119D4, 0x119D7},
    {0x119DA, 0x119DB}, {0x119E0, 0x119E0}, {0x11A01, 0x11A0A}, {0x11A33, 0x11A38}, {0x11A3B, 0x11A3E},
    {0x11A47, 0x11A47}, {0x11A51, 0x11A56}, {0x11A59, 0x11A5B}, {0x11A8A, 0x11A96}, {0x11A98, 0x11A99},
    {0x11C30, 0x11C36}, {0x11C38, 0x11C3D}, {0x11C3F, 0x11C3F}, {0x11C92, 0x11CA7}, {0x11CAA, 0x11CB0},
    {0x11CB2, 0x11CB3}, {0x11CB5, 0x11CB6}, {0x11D31, 0x11D36}, {0x11D3A, 0x11D3A}, {0x11D3C, 0x11D3D},
    {0x11D3F, 0x11D45}, {0x11D47, 0x11D47}, {0x11D90, 0x11D91}, {0x11D95, 0x11D95}, {0x11D97, 0x11D97},
    {0x11EF3, 0x11EF4}, {0x11F00, 0x11F01}, {0x11F36, 0x11F3A}, {0x11F40, 0x11F40}, {0x11F42, 0x11F42},
    {0x11F5A, 0x11F5A}, {0x13440, 0x13440}, {0x13447, 0x13455}, {0x1611E, 0x16129}, {0x1612D, 0x1612F},
    {0x16F4F, 0x16F4F}, {0x16FE4, 0x16FE4}, {0x1CF00, 0x1CF2D}, {0x1CF30, 0x1CF46}, {0x1E000, 0x1E006},
    {0x1E008, 0x1E018}, {0x1E01B, 0x1E021}, {0x1E023, 0x1E024}, {0x1E026, 0x1E02A}, {0x1E08F, 0x1E08F},
    {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF}, {0x1E5EE, 0x1E5EF},
    {0x1E944, 0x1E94A},
};

constexpr CodeRange kPunctuationSince8[] = {
    {0x61D, 0x61D},     {0x9FD, 0x9FD},     {0xA76, 0xA76},     {0xC77, 0xC77},     {0xC84, 0xC84},
    {0x1B4E, 0x1B4F},   {0x1B7D, 0x1B7F},   {0x2E43, 0x2E4F},   {0x2E52, 0x2E5D},   {0x10D6E, 0x10D6E},
    {0x10EAD, 0x10EAD}, {0x10F55, 0x10F59}, {0x10F86, 0x10F89}, {0x113D4, 0x113D5}, {0x113D7, 0x113D8},
    {0x1144B, 0x1144F}, {0x1145A, 0x1145B}, {0x1145D, 0x1145D}, {0x11660, 0x1166C}, {0x116B9, 0x116B9},
    {0x1183B, 0x1183B}, {0x11944, 0x11946}, {0x119E2, 0x119E2}, {0x11A3F, 0x11A46}, {0x11A9A, 0x11A9C},
    {0x11A9E, 0x11AA2}, {0x11B00, 0x11B09}, {0x11BE1, 0x11BE1}, {0x11C41, 0x11C45}, {0x11C70, 0x11C71},
    {0x11EF7, 0x11EF8}, {0x11F43, 0x11F4F}, {0x11FFF, 0x11FFF}, {0x12FF1, 0x12FF2}, {0x16D6D, 0x16D6F},
    {0x16E97, 0x16E9A}, {0x16FE2, 0x16FE2}, {0x1E5FF, 0x1E5FF}, {0x1E95E, 0x1E95F},
};

constexpr CodeRange kControlsSince8[] = {
    {0x890, 0x891},
    {0x8E2, 0x8E2},
    {0x110CD, 0x110CD},
    {0x13430, 0x1343F},
};

constexpr CodeRange kMarksUntil8[] = {
    {0x1734, 0x1734},
};

constexpr CodeRange kPunctuationUntil8[] = {
    {0x166D, 0x166D},
    {0x111C9, 0x111C9},
};

// Characters since version 9 that a normal form would move or join: both leave them as they are.
constexpr CodeRange kUnmovedSince9[] = {
    {0x7FD, 0x7FD},     {0x897, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},     {0xC3C, 0xC3C},
    {0xD3B, 0xD3C},     {0xEBA, 0xEBA},     {0x1715, 0x1715},   {0x1ABF, 0x1ACE},   {0x1DF6, 0x1DFA},
    {0xA82C, 0xA82C},   {0x105C0, 0x105F3}, {0x10D24, 0x10D27}, {0x10D69, 0x10D6D}, {0x10EAB, 0x10EAC},
    {0x10EFC, 0x10EFF}, {0x10F46, 0x10F50}, {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x1133B, 0x1133B},
    {0x11380, 0x113E2}, {0x1145E, 0x1145E}, {0x11839, 0x1183A}, {0x11930, 0x11930}, {0x11938, 0x11938},
    {0x1193D, 0x1193E}, {0x11943, 0x11943}, {0x119E0, 0x119E0}, {0x11A34, 0x11A34}, {0x11A47, 0x11A47},
    {0x11A99, 0x11A99}, {0x11D42, 0x11D42}, {0x11D44, 0x11D45}, {0x11D97, 0x11D97}, {0x11F41, 0x11F42},
    {0x16100, 0x1612F}, {0x16D40, 0x16D6C}, {0x16FF0, 0x16FF1}, {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136},
    {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF}, {0x1E5EE, 0x1E5EF},
};

// Capitals that got a lower case after version 15.
constexpr LowerCase kLowerCaseSince15[] = {
    {0x1C89, 0x1C89, 0x1C8A},    {0xA7CB, 0xA7CB, 0x264},  {0xA7CC, 0xA7CC, 0xA7CD},
    {0xA7CE, 0xA7CE, 0xA7CF},    {0xA7D2, 0xA7D2, 0xA7D3}, {0xA7D4, 0xA7D4, 0xA7D5},
    {0xA7DA, 0xA7DA, 0xA7DB},    {0xA7DC, 0xA7DC, 0x19B},  {0x10D50, 0x10D65, 0x10D70},
    {0x16EA0, 0x16EB8, 0x16EBB},
};

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
