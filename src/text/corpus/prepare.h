// Text to token files: OUT-train.bin and .idx, OUT-validation.bin and .idx, and OUT.json, which records
// inputs and settings.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/random.h"
#include "text/corpus/documents.h"
#include "text/corpus/indexed_writer.h"
#include "text/tokenizer/tokenizer.h"

namespace twobw::corpus {

// Choice of validation documents, by their number in the whole corpus and the seed, so that it does not
// depend on threads or interruptions.
struct Split {
  double fraction = 0.01;  // of documents, by a hash
  std::int64_t every = 0;  // above 0: every n-th document instead
  std::uint64_t seed = 0;

  bool has_validation() const { return every > 0 || fraction > 0; }
  // Expected fraction of documents for validation.
  double part() const { return every > 0 ? 1.0 / static_cast<double>(every) : fraction; }

  bool is_validation(std::int64_t document) const {
    if (every > 0) return document % every == every - 1;
    const std::uint64_t bits = random_key(seed, hash_text("validation"), document) >> 11;
    return static_cast<double>(bits) * 0x1p-53 < fraction;
  }
};

struct PrepareOptions {
  std::vector<std::string> inputs;  // files and folders
  std::string format = "auto";      // auto, text, jsonl, tsv
  DocumentOptions documents;
  std::string tokenizer = "bytes";  // as load_tokenizer takes it
  std::string out;
  bool end_of_text = true;        // append the token after every document, if the tokenizer has it
  std::string end_of_text_token;  // overrides the token of the tokenizer
  Split split;
  bool one_set = false;     // OUT.bin and OUT.idx instead of the four files; needs split.fraction 0
  int workers = 0;          // 0: one for each core
  bool restart = false;     // discard the state of an interrupted run
  double save_seconds = 2;  // between saved states, which follow the end of an input
};

struct PrepareProgress {
  std::int64_t bytes, total_bytes;  // of the inputs on the disk
  std::int64_t documents, tokens;
};

struct PrepareResult {
  TokenType type = TokenType::kUint16;
  WritePosition train;
  std::optional<WritePosition> validation;    // nothing: not requested
  bool by_position = false;                   // too few documents: validation is the end of the corpus
  std::int64_t empty = 0;                     // documents without tokens, which are omitted
  std::size_t inputs = 0, inputs_before = 0;  // all; finished by an interrupted run
  std::int64_t bytes = 0;
  std::optional<tokenizer::Id> end_of_text;
};

// Files are renamed when they are complete and on the disk. After an exception the same call continues after
// the finished inputs. The bytes depend neither on `workers` nor on interruptions. Throws InputError and
// RunError.
PrepareResult prepare(const PrepareOptions& options,
                      const std::function<void(const PrepareProgress&)>& report = {});

// A report for prepare(): a line on standard error, updated ten times a second and erased when the report is
// destroyed. Silent unless standard error is a terminal.
std::function<void(const PrepareProgress&)> progress_bar();

}  // namespace twobw::corpus
