// BertForMaskedLM and BertForSequenceClassification.
#include "planning/architecture/bert.h"

#include "planning/architecture/huggingface/kinds.h"
#include "planning/architecture/positions.h"

namespace twobw::architecture::huggingface {

ModelConfig read_bert(const ConfigFile& file) {
  file.expect_word("hidden_act", {"gelu"});
  file.expect_word("position_embedding_type", {"absolute"});
  file.expect("is_decoder", false);
  file.expect("is_causal", false);
  file.expect("add_cross_attention", false);
  ModelConfig config;
  config.family = "bert";
  config.layers = file.whole("num_hidden_layers", kMostLayers);
  config.width = file.whole("hidden_size", kMostWidth);
  config.heads = file.whole("num_attention_heads", kMostHeads);
  file.expect_divides("num_attention_heads", config.heads, "hidden_size", config.width);
  config.vocab = file.whole("vocab_size", kMostVocab);
  config.context = config.positions = file.whole("max_position_embeddings", kMostContext);
  config.tied = file.flag("tie_word_embeddings", true);
  config.dropout = file.number("hidden_dropout_prob", kUsualDropout);
  config.hidden = file.whole("intermediate_size", kMostWidth);
  config.norm_eps = file.number("layer_norm_eps", 1e-12);
  config.token_types = file.whole("type_vocab_size", kMostVocab, 2);
  return config;
}

nlohmann::json write_bert(const ModelConfig& config) {
  return {{"model_type", "bert"},
          {"vocab_size", config.vocab},
          {"hidden_size", config.width},
          {"num_hidden_layers", config.layers},
          {"num_attention_heads", config.heads},
          {"intermediate_size", inner_size(config)},
          {"hidden_act", "gelu"},
          {"hidden_dropout_prob", config.dropout},
          {"attention_probs_dropout_prob", config.dropout},
          {"classifier_dropout", nullptr},
          {"max_position_embeddings", positions_of(config)},
          {"type_vocab_size", config.token_types},
          {"layer_norm_eps", config.norm_eps},
          {"position_embedding_type", "absolute"}};
}

}  // namespace twobw::architecture::huggingface
