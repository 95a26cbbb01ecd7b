// What tokenizer_config.json sets of the classes of transformers, which count more than tokenizer.json does.
#pragma once

#include "text/tokenizer/beside.h"
#include "text/tokenizer/byte_level.h"
#include "text/tokenizer/word_piece.h"

namespace twobw::tokenizer {

// add_prefix_space of GPT-2's and Qwen 2's classes.
void set_prefix_space(const Beside& beside, ByteLevelModel& model);

// Where a class is named that splits in a way of its own: refuses a model that splits otherwise.
void check_class(const Beside& beside, const ByteLevelModel& model);

// Whether BERT's class says how a text is normalised, whatever tokenizer.json says.
bool sets_bert_text(const Beside& beside);
BertNormalizer bert_normalizer(const Beside& beside);

// The special tokens of BERT's class.
Beside::Defaults bert_tokens();
// Whether BERT's class says what stands around a sequence, and what that is.
bool sets_bert_frame(const Beside& beside);
void frame_bert(Frame& frame);

}  // namespace twobw::tokenizer
