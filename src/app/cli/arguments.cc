#include "app/cli/arguments.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>

#include "core/base/error.h"
#include "core/base/text_file.h"
#include "planning/architecture/families.h"
#include "planning/architecture/huggingface/model_config.h"
#include "text/corpus/configured_tokens.h"
#include "text/corpus/indexed_file.h"
#include "text/tokenizer/tokenizer.h"

namespace twobw::cli {
namespace {

// The vocabulary of a token file; 0 without a record.
int recorded_vocab(const std::string& path) {
  std::string prefix = corpus::token_file_prefix(path);
  for (const std::string_view set : {"-train", "-validation"}) {
    if (prefix.ends_with(set)) prefix.resize(prefix.size() - set.size());
  }
  try {
    const Json record = Json::parse(
        read_model_text("record of token files", prefix + ".json", kLargestConfig), nullptr, false);
    if (!record.is_object() || !record.contains("vocab_size")) return 0;
    const Json& vocab = record["vocab_size"];
    return vocab.is_number_unsigned() && vocab <= std::numeric_limits<int>::max() ? vocab.get<int>() : 0;
  } catch (const InputError&) {
    return 0;
  }
}

// The vocabulary that a corpus needs; 0: any.
int vocab_of(const std::string& path, const Config& config) {
  if (path == "synthetic") return 0;
  if (corpus::names_token_file(path)) return recorded_vocab(path);
  constexpr int kBytes = 256;
  if (config.data.tokenizer != "bytes") return 0;
  const bool masked = architecture::head_of(config.model) == ModelHead::MaskedLm;
  return masked ? kBytes + 1 : kBytes;
}

// Sets the default of model.vocab. A resumed run keeps its own. Else it is the largest vocabulary of token
// files (recorded by `twobw prepare`), of data.tokenizer unless that is bytes, and of texts as bytes.
// Synthetic data and token files without a record do not change it. Throws InputError for a tokenizer that
// cannot be read.
void set_default_vocab(Config& config) {
  if (const std::optional<Config> former = corpus::config_of_run(config)) {
    config.model.vocab = former->model.vocab;
    return;
  }
  int vocab = 0;
  if (config.data.tokenizer != "bytes")
    vocab = static_cast<int>(tokenizer::load_tokenizer(config.data.tokenizer)->vocab_size());
  for (const Corpora* corpora : {&config.data.train, &config.data.validation}) {
    for (const Corpus& corpus : *corpora) vocab = std::max(vocab, vocab_of(corpus.path, config));
  }
  if (vocab > 0) config.model.vocab = vocab;
}

void sort_out(const std::vector<std::string>& words, RunArguments& arguments) {
  for (const std::string& word : words) {
    if (word.find('=') != std::string::npos && !is_file(word)) {
      arguments.overrides.push_back(word);
    } else if (arguments.file.empty()) {
      arguments.file = word;
    } else {
      fail_input(
          "two configuration files are given, '{}' and '{}'; one is allowed, and overrides as key.path=value",
          arguments.file, word);
    }
  }
}

}  // namespace

Config load(const RunArguments& arguments) {
  std::vector<std::string> settings = arguments.defaults;
  settings.insert(settings.end(), arguments.overrides.begin(), arguments.overrides.end());
  Config config = architecture::huggingface::load_run_config(arguments.file, settings);
  const auto is_open = [&](const char* key) { return !is_set(key, arguments.file, arguments.overrides); };
  if (is_open("data.tokenizer")) corpus::set_default_tokenizer(config);
  if (is_open("model.vocab") && !config.model.is_imported()) set_default_vocab(config);
  return config;
}

Config load_to_plan(RunArguments arguments) {
  arguments.overrides.emplace_back("plan=auto");
  return load(arguments);
}

std::shared_ptr<RunArguments> add_run_arguments(CLI::App& command) {
  auto arguments = std::make_shared<RunArguments>();
  command.add_option_function<std::vector<std::string>>(
      "config", [arguments](const std::vector<std::string>& words) { sort_out(words, *arguments); },
      "[CONFIG.yaml] [key.path=value ...]; see docs/reference/configuration.md");
  return arguments;
}

}  // namespace twobw::cli
