// Embeddings of texts: what a BERT gives for the tokens of a text below its head, pooled to one vector.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/config.h"
#include "checkpoint/pretrained.h"
#include "data/text_frame.h"
#include "models/model.h"
#include "models/pooling.h"
#include "tokenizer/tokenizer.h"

namespace twobw::train {

struct EmbedOptions {
  models::Pooling pooling = models::Pooling::Mean;
  bool normalize = false;  // to a length of 1
  int context = 0;         // tokens of a text that count, [CLS] and [SEP] among them; 0: as many as positions
  int batch = 32;          // texts computed at a time
  std::string tokenizer = {};  // empty: that of the model's folder
};

class TextEmbedder {
 public:
  // `path`: a model's folder in Hugging Face's layout, a run or a checkpoint. Throws InputError.
  TextEmbedder(const std::string& path, const EmbedOptions& options);

  // One row a text [n, width], float32. What does not fit the context is cut off at the end.
  at::Tensor embed(const std::vector<std::string>& texts) const;

 private:
  std::vector<tokenizer::Id> encode(const std::string& text) const;
  // Sequences of tokens, padded to the longest.
  at::Tensor run(const std::vector<std::vector<tokenizer::Id>>& sequences) const;

  EmbedOptions options_;
  ModelConfig config_;
  std::unique_ptr<tokenizer::Tokenizer> tokenizer_;
  data::TextFrame frame_;
  models::Model model_;
  int layers_;                          // below the head
  std::vector<at::Tensor> parameters_;  // of these
};

// Throws InputError unless `path` ends in .safetensors or .jsonl.
void check_embeddings_path(const std::string& option, const std::string& path);

// As the tensor `embeddings` of a safetensors file, or as jsonl: {"embedding": [...]} for every row.
void write_embeddings(const std::string& path, const at::Tensor& embeddings);

}  // namespace twobw::train
