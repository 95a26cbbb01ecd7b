#include "text/corpus/prepare_checks.h"

#include <filesystem>
#include <string>
#include <system_error>

#include "core/base/error.h"
#include "core/base/random.h"
#include "core/base/text_file.h"
#include "text/tokenizer/utf8.h"

namespace twobw::corpus {
namespace {

namespace fs = std::filesystem;

bool lies_in(const fs::path& path, const fs::path& folder) {
  const fs::path way = path.lexically_relative(folder);
  return !way.empty() && *way.begin() != "..";
}

}  // namespace

std::string tokenizer_fingerprint(const std::string& path) {
  std::vector<std::string> files;
  std::error_code unreadable;
  if (fs::is_directory(path, unreadable)) {
    for (const char* name : {"tokenizer.json", "vocab.json", "merges.txt", "vocab.txt", "tokenizer.model",
                             "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"}) {
      const std::string file = (fs::path(path) / name).string();
      if (fs::exists(file, unreadable)) files.push_back(file);
    }
  } else if (fs::exists(path, unreadable)) {
    files.push_back(path);
  }
  std::uint64_t hash = hash_text("tokenizer");
  for (const std::string& file : files) {
    hash = random_key(hash, hash_text(fs::path(file).filename().string()),
                      hash_text(read_model_text("tokenizer", file, kLargestTable)));
  }
  return fmt::format("{:016x}", hash);
}

std::optional<tokenizer::Id> find_end_of_text(const PrepareOptions& options,
                                              const tokenizer::Tokenizer& tokenizer) {
  if (!options.end_of_text) return std::nullopt;
  if (options.end_of_text_token.empty()) return tokenizer.special().eos;
  const auto id = tokenizer.id(options.end_of_text_token);
  if (!id)
    fail_input("--eot is '{}', which is no token of '{}'", options.end_of_text_token, options.tokenizer);
  return id;
}

void check_out(const PrepareOptions& options, const std::vector<Input>& inputs) {
  if (fs::path(options.out).filename().empty()) {
    fail_input("--out is '{}'; it must be the beginning of a file's name", options.out);
  }
  const fs::path out = fs::weakly_canonical(fs::absolute(options.out));
  for (const std::string& path : options.inputs) {
    if (fs::is_directory(path) && lies_in(out, fs::canonical(path))) {
      fail_input("--out is '{}', which lies in the input folder '{}'; it must lie elsewhere", options.out,
                 path);
    }
  }
  for (const Input& input : inputs) {
    const std::string path = fs::canonical(input.path).string();
    for (const char* ending : {"-train.bin", "-train.idx", "-validation.bin", "-validation.idx", ".json"}) {
      if (path == out.string() + ending) fail_input("'{}' is an input and would be written", input.path);
    }
  }
  if (!options.split.has_validation() && fs::exists(options.out + "-validation.idx")) {
    fail_input(
        "there is to be no validation, but '{}-validation.idx' exists; remove it or choose another --out",
        options.out);
  }
  std::error_code error;
  fs::create_directories(out.parent_path(), error);
  if (error) fail_input("--out is '{}', where no files can be made: {}", options.out, error.message());
}

Json describe_settings(const PrepareOptions& options, const tokenizer::Tokenizer& tokenizer, TokenType type,
                       std::optional<tokenizer::Id> end_of_text) {
  Json end = nullptr;
  if (end_of_text) end = *end_of_text;
  return {{"tokenizer", tokenizer::replace_invalid(options.tokenizer)},
          {"tokenizer_kind", tokenizer.describe()},
          {"tokenizer_files", tokenizer_fingerprint(options.tokenizer)},
          {"vocab_size", tokenizer.vocab_size()},
          {"token_type", std::string(name(type))},
          {"end_of_text", end},
          {"format", options.format},
          {"field", tokenizer::replace_invalid(options.documents.field)},
          {"column", tokenizer::replace_invalid(options.documents.column)},
          {"split", options.documents.blank_lines ? "blank-lines" : "files"},
          {"validation", options.split.every > 0 ? 0 : options.split.fraction},
          {"validation_every", options.split.every},
          {"seed", options.split.seed}};
}

Json describe_result(const PrepareState& state, bool validation) {
  const auto counts = [](const WritePosition& position) {
    return Json{{"documents", position.documents}, {"tokens", position.tokens}};
  };
  Json result = state.settings;
  result["sets"]["train"] = counts(state.train);
  if (validation) result["sets"]["validation"] = counts(state.validation);
  result["empty_documents"] = state.empty;
  result["inputs"] = Json::array();
  for (const Input& input : state.finished) {
    result["inputs"].push_back({{"path", tokenizer::replace_invalid(input.path)},
                                {"format", format_name(input.format)},
                                {"bytes", input.bytes}});
  }
  return result;
}

}  // namespace twobw::corpus
