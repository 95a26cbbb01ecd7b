// twobw tokenizer: trains, shows and applies a tokenizer.
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "app/cli/json_output.h"
#include "app/cli/program.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/text_file.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/train_bpe.h"
#include "text/tokenizer/utf8.h"

namespace twobw::cli {
namespace {

using tokenizer::Id;
using tokenizer::Tokenizer;

// The file's text; standard input without a file.
std::string read_input(const std::string& path) {
  if (!path.empty()) return read_text("text", path, kAnySize);
  return {std::istreambuf_iterator<char>(std::cin), {}};
}

// train

struct TrainOptions {
  int vocab = 8192;
  int min_count = 2;
  std::string out;
  std::vector<std::string> special = {"<|endoftext|>"};
  std::vector<std::string> files;
  bool json = false;
};

void check_special(const std::vector<std::string>& special) {
  for (std::size_t i = 0; i < special.size(); ++i) {
    if (special[i].empty()) fail_input("--special is empty; it must be the text of a token");
    if (tokenizer::replace_invalid(special[i]) != special[i]) fail_input("--special must be UTF-8");
    if (std::find(special.begin(), special.begin() + static_cast<std::ptrdiff_t>(i), special[i]) !=
        special.begin() + static_cast<std::ptrdiff_t>(i)) {
      fail_input("--special {} is given twice", special[i]);
    }
  }
}

void train_tokenizer(const TrainOptions& options) {
  constexpr int kBytes = 256;
  check_special(options.special);
  const int least = kBytes + static_cast<int>(options.special.size());
  if (options.vocab < least) {
    fail_input("--vocab is {}; it must be at least {}: {} bytes and {} special tokens", options.vocab, least,
               kBytes, options.special.size());
  }
  tokenizer::WordCounts words(options.special);
  double bytes = 0;
  for (const std::string& file : options.files) {
    const std::string text = read_text("text", file, kAnySize);
    words.add(text);
    bytes += static_cast<double>(text.size());
  }
  const auto learned = tokenizer::learn_bpe(
      words, static_cast<std::size_t>(options.vocab) - options.special.size(), options.min_count);
  tokenizer::write_bpe(learned, options.special, options.out);
  const std::size_t found = learned.tokens.size() + options.special.size();
  if (options.json) {
    return print_json(
        {{"folder", options.out}, {"tokens", found}, {"bytes", bytes}, {"words", words.counts().size()}});
  }
  fmt::print("{} tokens from {} ({} different words) in {}\n", found, format_bytes(bytes),
             words.counts().size(), options.out);
  if (found < static_cast<std::size_t>(options.vocab)) {
    fmt::print("fewer than {}: every other pair of tokens occurs less than {} times\n", options.vocab,
               std::max(options.min_count, 1));
  }
}

void add_train_tokenizer(CLI::App& group) {
  auto options = std::make_shared<TrainOptions>();
  CLI::App* command = group.add_subcommand("train", "Learn a byte-level BPE from text files");
  command->add_option("files", options->files, "Text files to learn from")->required();
  command->option_defaults()->always_capture_default();  // the help shows them
  command->add_option("--vocab", options->vocab, "Vocabulary size, with special tokens");
  command->add_option("--out", options->out, "Folder to write: tokenizer.json, vocab.json and merges.txt")
      ->required();
  command->add_option("--min-count", options->min_count, "Occurrences that a pair needs to become a token");
  command->add_option("--special", options->special, "A special token; may be repeated")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);  // else [MASK] is a list of one
  add_json_flag(*command, options->json);
  command->callback([options] { train_tokenizer(*options); });
}

// encode

struct EncodeOptions {
  std::string tokenizer;
  std::string file;
  bool special = false;
  bool lines = false;
  bool replace = false;
  bool count = false;
  int repeat = 1;
  bool json = false;
};

// The line with its end, taken off the front.
std::string_view take_line(std::string_view& text) {
  const std::size_t stop = text.find('\n');
  const std::string_view line = text.substr(0, stop == std::string_view::npos ? text.size() : stop + 1);
  text.remove_prefix(line.size());
  return line;
}

// Calls `use` with the whole text, or with every line of it.
template <typename Use>
void each_part(std::string_view text, bool lines, const Use& use) {
  do {
    use(lines ? take_line(text) : std::exchange(text, ""));
  } while (!text.empty());
}

void print_speed(const Tokenizer& tokenizer, const std::string& text, const EncodeOptions& options) {
  double best = 0;
  std::vector<Id> ids;
  for (int i = 0; i < options.repeat; ++i) {
    ids.clear();
    const auto begin = std::chrono::steady_clock::now();
    each_part(text, options.lines, [&](std::string_view part) { tokenizer.encode(part, ids); });
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    best = i == 0 ? seconds.count() : std::min(best, seconds.count());
  }
  print_result(options.json, {{"tokens", ids.size()}, {"bytes", text.size()}, {"seconds", best}},
               fmt::format("{} tokens of {} bytes in {:.6f} s\n", ids.size(), text.size(), best));
}

void encode_text(const EncodeOptions& options) {
  const auto tokenizer = tokenizer::load_tokenizer(options.tokenizer);
  std::string text = read_input(options.file);
  if (options.replace) text = tokenizer::replace_invalid(text);
  if (options.count) return print_speed(*tokenizer, text, options);
  each_part(text, options.lines, [&](std::string_view part) {
    std::vector<Id> ids;
    if (options.special) {
      tokenizer->encode_sequence(part, ids);
    } else {
      tokenizer->encode(part, ids);
    }
    fmt::print("{}",
               options.json ? Json{{"ids", ids}}.dump() + "\n" : fmt::format("{}\n", fmt::join(ids, " ")));
  });
}

void add_encode(CLI::App& group) {
  auto options = std::make_shared<EncodeOptions>();
  CLI::App* command = group.add_subcommand("encode", "Encode a text: print its ids");
  command->add_option("tokenizer", options->tokenizer, "A folder, a file, or bytes")->required();
  command->add_option("file", options->file, "The text (default: standard input)");
  command->add_flag("--special", options->special, "Add the special tokens around a sequence");
  command->add_flag("--lines", options->lines, "Encode every line by itself");
  command->add_flag("--replace-invalid", options->replace, "Replace invalid UTF-8 by U+FFFD");
  command->add_flag("--count", options->count, "Print only the number of ids and the encoding time");
  command->add_option("--repeat", options->repeat, "With --count: repetitions, of which the fastest counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_flag("--json", options->json, "Print a line of JSON for the text, or for every line");
  command->callback([options] { encode_text(*options); });
}

// decode

struct DecodeOptions {
  std::string tokenizer;
  std::string file;
  bool skip_special = false;
  bool json = false;
};

std::vector<Id> parse_ids(std::string_view text, Id vocab) {
  constexpr std::string_view kBetween = " \t\r\n,";
  std::vector<Id> ids;
  for (;;) {
    const std::size_t begin = text.find_first_not_of(kBetween);
    if (begin == std::string_view::npos) return ids;
    text.remove_prefix(begin);
    const std::string_view word = text.substr(0, text.find_first_of(kBetween));
    const std::optional<Id> id = parse_number<Id>(word);
    if (!id || *id < 0 || *id >= vocab) {
      fail_input("'{}' is not an id of this tokenizer; ids are whole numbers from 0 to {}",
                 word.substr(0, 40), vocab - 1);
    }
    ids.push_back(*id);
    text.remove_prefix(word.size());
  }
}

void decode_ids(const DecodeOptions& options) {
  const auto tokenizer = tokenizer::load_tokenizer(options.tokenizer);
  const std::vector<Id> ids = parse_ids(read_input(options.file), tokenizer->vocab_size());
  const std::string text = tokenizer->decode(ids, options.skip_special);
  print_result(options.json, {{"text", tokenizer::replace_invalid(text)}}, text);
}

void add_decode(CLI::App& group) {
  auto options = std::make_shared<DecodeOptions>();
  CLI::App* command = group.add_subcommand("decode", "Decode ids: print their text");
  command->add_option("tokenizer", options->tokenizer, "A folder, a file, or bytes")->required();
  command->add_option("file", options->file, "Space-separated ids (default: standard input)");
  command->add_flag("--skip-special", options->skip_special, "Omit special tokens");
  add_json_flag(*command, options->json);
  command->callback([options] { decode_ids(*options); });
}

// show

void show_tokenizer(const std::string& path, bool as_json) {
  const auto tokenizer = tokenizer::load_tokenizer(path);
  const tokenizer::SpecialIds& special = tokenizer->special();
  const std::pair<const char*, std::optional<Id>> rows[] = {
      {"bos", special.bos}, {"eos", special.eos}, {"pad", special.pad},  {"unk", special.unk},
      {"cls", special.cls}, {"sep", special.sep}, {"mask", special.mask}};
  Json json = {{"description", tokenizer->describe()}, {"vocab", tokenizer->vocab_size()}};
  std::string text = fmt::format("{}, {} ids\n", tokenizer->describe(), tokenizer->vocab_size());
  for (const auto& [name, id] : rows) {
    if (!id) continue;
    json["special"][name] = {{"id", *id}, {"token", tokenizer->token(*id)}};
    text += fmt::format("  {:<4}  {:>6}  {}\n", name, *id, tokenizer->token(*id));
  }
  print_result(as_json, json, text);
}

void add_show(CLI::App& group) {
  auto path = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  CLI::App* command = group.add_subcommand("show", "Print a tokenizer's type, size and special tokens");
  command->add_option("tokenizer", *path, "A folder, a file, or bytes")->required();
  add_json_flag(*command, *json);
  command->callback([path, json] { show_tokenizer(*path, *json); });
}

}  // namespace

void add_tokenizer(CLI::App& command, int&) {
  command.require_subcommand(1);
  add_train_tokenizer(command);
  add_encode(command);
  add_decode(command);
  add_show(command);
}

}  // namespace twobw::cli
