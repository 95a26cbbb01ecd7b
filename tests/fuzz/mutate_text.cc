// Mutations that replace values by hostile ones, in JSON and in lines.
#include <algorithm>
#include <iterator>
#include <sstream>
#include <string_view>

#include "tests/fuzz/mutate.h"

namespace twobw::fuzz {
namespace {

struct Token {
  std::size_t begin, end;
};

bool is_in(char c, std::string_view set) {
  return set.find(c) != std::string_view::npos;
}

// Tokens of JSON, which may be damaged: strings, numbers, words, brackets, commas and colons.
std::vector<Token> tokens_of(std::string_view text) {
  constexpr std::string_view kMarks = "{}[],:", kBlanks = " \t\r\n";
  std::vector<Token> tokens;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at++;
    if (is_in(text[begin], kBlanks)) continue;
    if (text[begin] == '"') {
      while (at < text.size() && text[at] != '"') at += text[at] == '\\' ? 2 : 1;
      at = std::min(at + 1, text.size());
    } else if (!is_in(text[begin], kMarks)) {
      while (at < text.size() && !is_in(text[at], kMarks) && !is_in(text[at], kBlanks) && text[at] != '"')
        ++at;
    }
    tokens.push_back({begin, at});
  }
  return tokens;
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream words(text);
  return {std::istream_iterator<std::string>(words), {}};
}

const std::vector<std::string>& numbers() {
  static const std::vector<std::string> all = words_of(
      "0 -0 1 -1 0.5 1e308 -1e308 1e999 1e-320 127 256 65536 1048577 2147483647 2147483648 -2147483648 "
      "4294967295 4294967296 9007199254740993 4611686018427387904 9223372036854775807 9223372036854775808 "
      "-9223372036854775808 18446744073709551615 18446744073709551616 99999999999999999999999999");
  return all;
}

std::string hostile_json(Random& random) {
  static const std::vector<std::string> values = words_of(
      R"(null true false "" "a" "\u0000" "\ud800" "\n\u0001" "../../x.safetensors" [] {} NaN Infinity)"
      " \"\xC4\xA0\" \"\xFF\" [[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]] [0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0] "
      R"({"a":{"a":{"a":{"a":{}}}}})");
  if (random.one_in(64)) return "\"" + std::string(2000, 'a') + "\"";
  return random.choose(random.one_in(2) ? numbers() : values);
}

// Too deep for a recursive reader.
std::string deep_json(Random& random) {
  const std::string_view unit = random.one_in(2) ? "[" : "{\"a\":";
  std::string deep;
  for (std::size_t depth = 1000 + random.below(100'000); depth > 0; --depth) deep += unit;
  return deep;
}

}  // namespace

void mutate_json(std::string& text, Random& random) {
  const std::vector<Token> tokens = tokens_of(text);
  if (tokens.empty()) {
    text += hostile_json(random);
    return;
  }
  const std::size_t first = random.below(tokens.size());
  const Token token = tokens[first];
  const std::string word = text.substr(token.begin, token.end - token.begin);
  const Token last = tokens[std::min(tokens.size() - 1, first + random.below(12))];
  switch (random.below(6)) {
    case 0:  // a mark replaces a token
      text.replace(token.begin, word.size(), std::string(1, std::string_view("{}[],:\"")[random.below(7)]));
      break;
    case 1:
      text.insert(random.choose(tokens).begin, text.substr(token.begin, last.end - token.begin));
      break;
    case 2:
      text.erase(token.begin, last.end - token.begin);
      break;
    case 3:
      text.replace(token.begin, word.size(), random.one_in(2) ? "[" + word + "]" : "{\"a\":" + word + "}");
      break;
    default:
      if (random.one_in(2000)) {
        text.insert(token.begin, deep_json(random));
      } else {
        text.replace(token.begin, word.size(), hostile_json(random));
      }
  }
}

void mutate_lines(std::string& text, Random& random) {
  static constexpr std::string_view kWords[] = {
      ": ",  "- ",  "&a ",     "*a",  "<<: *a\n", "!!binary ", "{",    "}",           "[",    "]",
      "|\n", ">\n", "? ",      "\t",  "---\n",    "null",      "~",    ".inf",        ".nan", "0x7f",
      "\"",  "'",   "#",       "\n",  "\r\n",     "\f\n",      "",     "true",        "auto", "all",
      ",",   "=",   "cuda:0/", "GiB", "x",        "\x04",      "\xFF", "\xEF\xBB\xBF"};
  const std::size_t at = random.below(text.size() + 1);
  // End of the word.
  std::size_t end = at;
  while (end < text.size() && !is_in(text[end], " \t\n,:[]{}=")) ++end;
  const std::size_t line = text.rfind('\n', at == 0 ? 0 : at - 1) + 1;  // npos + 1 is 0
  const std::size_t next = std::min(text.find('\n', at), text.size() - (text.empty() ? 0 : 1)) + 1;
  switch (random.below(7)) {
    case 0:
      text.insert(at, random.choose(kWords));
      break;
    case 1:
      text.replace(at, end - at, random.choose(kWords));
      break;
    case 2:
    case 3:
      text.replace(at, end - at, random.choose(numbers()));
      break;
    case 4:
      if (line < next && next <= text.size()) text.insert(line, text.substr(line, next - line));
      break;
    case 5:
      if (line < next && next <= text.size()) text.erase(line, next - line);
      break;
    default: {
      const std::size_t count = random.one_in(500) ? 5000 : 1 + random.below(4);
      text.insert(at, std::string(count, random.one_in(2) ? ' ' : '['));
    }
  }
}

}  // namespace twobw::fuzz
