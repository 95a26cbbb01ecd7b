#include "core/base/error.h"
#include "engine/data/masking.h"
#include "engine/data/sources.h"
#include "planning/architecture/families.h"
#include "text/corpus/configured_tokens.h"
#include "text/tokenizer/tokenizer.h"

namespace twobw::data {
namespace {

// For windows whose targets are the next tokens.
StreamDemand one_more(int vocab, int length) {
  return {.vocab = vocab, .context = length, .window = length + 1};
}

std::unique_ptr<Examples> open_windows(const std::string& key, const std::string& path, int vocab, int length,
                                       bool documents_apart = false) {
  auto text = open_stream(key, path, one_more(vocab, length));
  if (documents_apart && !text->has_documents()) {
    fail_input(
        "model.reset_documents is true, but {} '{}' is a text without documents; make token files of it with "
        "twobw prepare",
        key, path);
  }
  return next_token_windows(std::move(text), length, documents_apart);
}

// `name`: the user's path, in descriptions.
std::unique_ptr<Source> open_alone(const std::string& key, const std::string& path, const std::string& name,
                                   int vocab, int length) {
  if (path == "synthetic") return make_synthetic(vocab);
  if (!names_token_file(path))
    return draw_at_random(name, open_stream(key, path, one_more(vocab, length)), length);
  std::vector<WeightedExamples> parts;
  parts.push_back({.name = name, .examples = open_windows(key, path, vocab, length)});
  return make_dataset(std::move(parts));
}

}  // namespace

std::unique_ptr<Source> open_source(const std::string& key, const std::string& path, int vocab, int length) {
  return open_alone(key, path, path, vocab, length);
}

std::unique_ptr<Source> open_source(const std::string& key, const Corpora& given, const Config& config) {
  const ModelHead head = architecture::head_of(config.model);
  const bool next_tokens = head == ModelHead::CausalLm;
  const int vocab = config.model.vocab, length = config.model.context;
  const bool apart = config.model.reset_documents;
  if (!next_tokens && is_synthetic(given)) return make_synthetic_sequences(config.model);
  const auto tokenizer = next_tokens ? nullptr : tokenizer::load_tokenizer(config.data.tokenizer);
  // Refuses a tokenizer without a mask before texts are tokenized with it.
  if (head == ModelHead::MaskedLm && config.data.tokenizer != "bytes") masked_frame(config, *tokenizer);
  const Corpora corpora = corpus::with_token_files(key, given, config);
  if (next_tokens && !apart && corpora.size() == 1)
    return open_alone(key, corpora.front().path, given.front().path, vocab, length);
  const auto open = [&](const std::string& path) {
    if (next_tokens) return open_windows(key, path, vocab, length, apart);
    if (config.model.next_sentence) return open_sentence_pairs(key, path, config, *tokenizer);
    if (head == ModelHead::MaskedLm) return open_masked(key, path, config, *tokenizer);
    return open_labelled(key, path, config, *tokenizer);
  };
  std::vector<WeightedExamples> parts;
  for (std::size_t i = 0; i < corpora.size(); ++i) {
    parts.push_back({.name = given[i].path, .examples = open(corpora[i].path), .weight = corpora[i].weight});
  }
  return make_dataset(std::move(parts), config.data.bucket);
}

}  // namespace twobw::data
