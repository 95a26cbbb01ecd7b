#include "app/cli/arguments.h"

#include <filesystem>

#include "app/cli/default_vocab.h"
#include "core/base/error.h"
#include "planning/architecture/huggingface/model_config.h"
#include "text/corpus/configured_tokens.h"

namespace twobw::cli {
namespace {

bool is_file(const std::string& word) {
  std::error_code error;  // it may be too long for a name
  return std::filesystem::is_regular_file(word, error);
}

}  // namespace

void sort_out(RunArguments& arguments) {
  for (const std::string& word : arguments.words) {
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
  command.add_option("config", arguments->words, "[CONFIG.yaml] [key.path=value ...]; see docs/config.md");
  return arguments;
}

}  // namespace twobw::cli
