#include "app/cli/default_vocab.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/text_file.h"
#include "planning/architecture/families.h"
#include "text/corpus/configured_tokens.h"
#include "text/corpus/indexed_file.h"
#include "text/tokenizer/load.h"

namespace twobw::cli {
namespace {

// 0: without a record.
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

// 0: any.
int vocab_of(const std::string& path, const Config& config) {
  if (path == "synthetic") return 0;
  if (corpus::names_token_file(path)) return recorded_vocab(path);
  constexpr int kBytes = 256;
  if (config.data.tokenizer != "bytes") return 0;
  const bool masked = architecture::head_of(config.model) == ModelHead::MaskedLm;
  return masked ? kBytes + 1 : kBytes;
}

}  // namespace

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

}  // namespace twobw::cli
