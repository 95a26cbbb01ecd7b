// The parts that sources are made of.
#pragma once

#include <memory>
#include <vector>

#include "engine/data/examples.h"
#include "engine/data/stream.h"
#include "engine/data/tokens.h"
#include "text/tokenizer/tokenizer.h"

namespace twobw::data {

// Windows of so many tokens of a text, at random places in training.
std::unique_ptr<Source> draw_at_random(std::unique_ptr<TokenStream> text, int length);

// A text cut into windows of so many tokens, with the next tokens as targets. Where documents are apart, with
// positions in them too, and without the targets of another document than their token; the text has documents
// then.
std::unique_ptr<Examples> next_token_windows(std::unique_ptr<TokenStream> text, int length,
                                             bool documents_apart = false);

// Windows of a text, some of whose tokens are to be predicted (masking.h), between [CLS] and [SEP] where the
// tokenizer has them. Throws InputError.
std::unique_ptr<Examples> open_masked(const std::string& key, const std::string& path, const Config& config,
                                      const tokenizer::Tokenizer& tokenizer);

// The same of two parts of a document, or of two documents, and a label that says which: 0 where the second
// part follows the first. Throws InputError.
std::unique_ptr<Examples> open_sentence_pairs(const std::string& key, const std::string& path,
                                              const Config& config, const tokenizer::Tokenizer& tokenizer);

// Texts or pairs of texts with a class or a number, of a tsv or jsonl file: [CLS] text [SEP], or [CLS] text
// [SEP] second text [SEP]; where the tokenizer has other tokens for a text's ends, those. All of the file is
// encoded, and kept in memory. Throws InputError.
std::unique_ptr<Examples> open_labelled(const std::string& key, const std::string& path, const Config& config,
                                        const tokenizer::Tokenizer& tokenizer);

struct WeightedExamples {
  std::unique_ptr<Examples> examples;
  double weight = 1;
};

// Every example once an epoch, in an order of its own (epochs.h); of several sets each in epochs of its own,
// blended by their weights (blend.h). With buckets of more than 0 sequences, those of like length follow one
// another in training (buckets.h). All sets give the same fields.
std::unique_ptr<Source> make_dataset(std::vector<WeightedExamples> parts, int bucket = 0);

// Endless made-up text for tests and benchmarks: each token follows from the one before by a fixed
// map, except one time in four, when it is drawn at random; so there is something to learn.
std::unique_ptr<Source> make_synthetic(int vocab);

// The same for models that tell masked tokens, classes or numbers of sequences: with padding where the model
// has it, and a class and a number that follow from the first token. The mask is the last token that the
// model knows.
std::unique_ptr<Source> make_synthetic_sequences(const ModelConfig& model);

}  // namespace twobw::data
