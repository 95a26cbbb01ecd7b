#include "text/corpus/default_tokenizer.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>

#include "core/base/error.h"
#include "text/corpus/indexed_file.h"
#include "text/tokenizer/load.h"

namespace twobw::corpus {
namespace {

namespace fs = std::filesystem;

bool are_tokens(const Corpora& corpora) {
  return std::ranges::all_of(corpora, [](const Corpus& corpus) {
    return corpus.path == "synthetic" || names_token_file(corpus.path);
  });
}

bool can_be_used(const std::string& folder, int vocab) {
  try {
    return tokenizer::load_tokenizer(folder)->vocab_size() <= vocab;
  } catch (const InputError&) {
    return false;
  }
}

}  // namespace

std::optional<Config> config_of_run(const Config& config) {
  if (config.resume == "none") return std::nullopt;
  const std::string run = config.resume == "auto" ? config.run_dir : config.resume;
  std::error_code unreadable;
  if (!fs::is_directory(run + "/checkpoints", unreadable) || !fs::exists(run + "/config.yaml", unreadable))
    return std::nullopt;
  return load_config_of_run(run, {});
}

void set_default_tokenizer(Config& config) {
  DataConfig& data = config.data;
  const std::string& folder = config.model.from;
  if (const std::optional<Config> former = config_of_run(config)) {
    data.tokenizer = former->data.tokenizer;
  } else if (config.model.is_imported() && tokenizer::has_tokenizer(folder)) {
    const bool needs_none = are_tokens(data.train) && are_tokens(data.validation);
    if (!needs_none || can_be_used(folder, config.model.vocab)) data.tokenizer = folder;
  }
}

}  // namespace twobw::corpus
