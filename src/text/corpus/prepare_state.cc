#include "text/corpus/prepare_state.h"

#include <filesystem>
#include <system_error>

#include "core/base/error.h"
#include "core/base/random.h"
#include "core/base/text_file.h"
#include "text/tokenizer/utf8.h"

namespace twobw::corpus {
namespace {

namespace fs = std::filesystem;

constexpr int kVersion = 1;

Json to_json(const WritePosition& position) {
  return {{"bin_bytes", position.bin_bytes},
          {"length_bytes", position.length_bytes},
          {"documents", position.documents},
          {"tokens", position.tokens}};
}

WritePosition position_from(const Json& value) {
  return {value.at("bin_bytes"), value.at("length_bytes"), value.at("documents"), value.at("tokens")};
}

Json to_json(const Input& input) {
  // JSON requires UTF-8; names of files may be other bytes.
  return {{"path", tokenizer::replace_invalid(input.path)},
          {"format", format_name(input.format)},
          {"bytes", input.bytes},
          {"modified", input.modified}};
}

PrepareState from_json(const Json& value) {
  PrepareState state;
  if (value.at("version") != kVersion) throw Json::other_error::create(501, "version", nullptr);
  state.settings = value.at("settings");
  state.documents = value.at("documents");
  state.empty = value.at("empty");
  state.train = position_from(value.at("train"));
  state.validation = position_from(value.at("validation"));
  state.publishing = value.at("publishing");
  return state;
}

[[noreturn]] void refuse_other(const std::string& out, const std::string& why) {
  fail_input(
      "'{}' is of an interrupted run that differs ({}); finish that one first, or give --restart to drop it",
      state_path(out), why);
}

void check_settings(const std::string& out, const Json& before, const Json& now) {
  for (const auto& [key, value] : now.items()) {
    if (!before.contains(key)) refuse_other(out, fmt::format("it has no {}", key));
    if (before[key] != value) {
      refuse_other(out, fmt::format("{} was {}, now {}", key, before[key].dump(), value.dump()));
    }
  }
}

bool lies_in(const fs::path& path, const fs::path& folder) {
  const fs::path way = path.lexically_relative(folder);
  return !way.empty() && *way.begin() != "..";
}

}  // namespace

std::string state_path(const std::string& out) {
  return out + ".partial.json";
}

void save_state(const std::string& out, const PrepareState& state) {
  Json finished = Json::array();
  for (const Input& input : state.finished) finished.push_back(to_json(input));
  const Json value = {{"version", kVersion},
                      {"settings", state.settings},
                      {"documents", state.documents},
                      {"empty", state.empty},
                      {"train", to_json(state.train)},
                      {"validation", to_json(state.validation)},
                      {"publishing", state.publishing},
                      {"finished", finished}};
  replace_text(state_path(out), value.dump() + "\n");
}

std::optional<PrepareState> load_state(const std::string& out, const Json& settings,
                                       const std::vector<Input>& inputs) {
  const std::string path = state_path(out);
  if (!fs::exists(path)) return std::nullopt;
  const std::string text = read_text("state of an interrupted run", path);
  PrepareState state;
  Json finished;
  try {
    const Json value = Json::parse(text);
    state = from_json(value);
    finished = value.at("finished");
    finished.get_ref<const Json::array_t&>();
  } catch (const Json::exception&) {
    fail_input("'{}' is damaged; give --restart to start over", path);
  }
  check_settings(out, state.settings, settings);
  for (std::size_t i = 0; i < finished.size(); ++i) {
    if (i >= inputs.size()) refuse_other(out, "it had more inputs");
    if (finished[i] != to_json(inputs[i])) {
      refuse_other(out, fmt::format("input '{}' has changed or is another", inputs[i].path));
    }
    state.finished.push_back(inputs[i]);
  }
  if (state.publishing && finished.size() != inputs.size()) refuse_other(out, "it had fewer inputs");
  return state;
}

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
    fail_input("--eot is '{}', which is not a token of '{}'", options.end_of_text_token, options.tokenizer);
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
        "no validation is requested, but '{}-validation.idx' exists; remove it or choose another --out",
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
