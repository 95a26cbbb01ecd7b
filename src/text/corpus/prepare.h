// Text to token files: OUT-train.bin and .idx, OUT-validation.bin and .idx, and OUT.json, which says what
// they were made of.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "text/corpus/documents.h"
#include "text/corpus/indexed_writer.h"
#include "text/corpus/split.h"
#include "text/corpus/token_type.h"
#include "text/tokenizer/tokenizer.h"

namespace twobw::corpus {

struct PrepareOptions {
  std::vector<std::string> inputs;  // files and folders
  std::string format = "auto";      // auto, text, jsonl, tsv
  DocumentOptions documents;
  std::string tokenizer = "bytes";  // as load_tokenizer takes it
  std::string out;
  bool end_of_text = true;        // after every document, where the tokenizer has such a token
  std::string end_of_text_token;  // another one than the tokenizer's own
  Split split;
  bool one_set = false;     // OUT.bin and OUT.idx instead of the four files; needs split.fraction 0
  int workers = 0;          // 0: one for each core
  bool restart = false;     // drop what an interrupted run left
  double save_seconds = 2;  // between two states saved, at the end of an input
};

struct PrepareProgress {
  std::int64_t bytes, total_bytes;  // of the inputs as they lie on the disk
  std::int64_t documents, tokens;
};

struct PrepareResult {
  TokenType type = TokenType::kUint16;
  WritePosition train;
  std::optional<WritePosition> validation;    // nothing: none was asked for
  bool by_position = false;                   // too few documents: the end of the corpus is for validation
  std::int64_t empty = 0;                     // documents without tokens, which are left out
  std::size_t inputs = 0, inputs_before = 0;  // all of them; those that an interrupted run had finished
  std::int64_t bytes = 0;
  std::optional<tokenizer::Id> end_of_text;
};

// The files get their names when they are whole and on the disk. Where it throws, finished inputs are not
// lost: the same call goes on after them. The bytes do not depend on `workers` nor on interruptions. Throws
// InputError and RunError.
PrepareResult prepare(const PrepareOptions& options,
                      const std::function<void(const PrepareProgress&)>& report = {});

}  // namespace twobw::corpus
