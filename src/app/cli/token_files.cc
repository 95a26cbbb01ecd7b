// twobw prepare: writes token files from texts. twobw inspect: shows token files.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <malloc.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "app/cli/json_output.h"
#include "app/cli/program.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/text_file.h"
#include "text/corpus/indexed_file.h"
#include "text/corpus/prepare.h"
#include "text/corpus/summary.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/utf8.h"

namespace twobw::cli {
namespace {

// prepare

using corpus::PrepareOptions;
using corpus::PrepareResult;

void print_counts(const std::string& prefix, const corpus::WritePosition& counts) {
  fmt::print("  {:<40}  {} documents, {} tokens\n", prefix + ".bin, .idx", counts.documents, counts.tokens);
}

void print_prepared(const PrepareOptions& options, const PrepareResult& result, double seconds) {
  fmt::print("{} in {} files as {} tokens in {}\n", format_bytes(static_cast<double>(result.bytes)),
             result.inputs, name(result.type), format_duration(seconds));
  if (result.inputs_before > 0) {
    fmt::print("  resumed after {} files of an interrupted run\n", result.inputs_before);
  }
  print_counts(options.out + "-train", result.train);
  if (result.validation) print_counts(options.out + "-validation", *result.validation);
  if (result.empty > 0) fmt::print("  left out {} documents without text\n", result.empty);
  if (options.end_of_text && !result.end_of_text) {
    fmt::print("  no end-of-text tokens: '{}' has none; only the index separates documents\n",
               options.tokenizer);
  }
  if (result.by_position)
    fmt::print("  too few documents for two sets: the last {:.3g}% of the tokens are for validation\n",
               100 * options.split.part());
}

// Blocks of a long line go back to the system when they are freed. By default glibc keeps them for each
// thread, up to 32 MiB apiece.
void return_large_blocks() {
#if defined(__GLIBC__)
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
#endif
}

void prepare_corpus(const PrepareOptions& options, bool json) {
  return_large_blocks();
  const auto begin = std::chrono::steady_clock::now();
  const PrepareResult result = corpus::prepare(options, corpus::progress_bar());
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  if (json) return fmt::print("{}", read_text("summary", options.out + ".json", kAnySize));
  print_prepared(options, result, seconds.count());
}

// inspect

struct InspectOptions {
  std::string file;
  std::string tokenizer;
  std::int64_t samples = 3;
  std::int64_t length = 64;
  bool json = false;
};

// Escapes control characters, which a terminal would execute.
std::string printable(const std::string& text) {
  std::string shown;
  for (const char c : tokenizer::replace_invalid(text)) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7F) {
      shown += fmt::format("\\x{:02x}", byte);
    } else {
      shown.push_back(c);
    }
  }
  return shown;
}

void print_summary(const corpus::IndexedFile& file, const corpus::Summary& summary) {
  fmt::print("{}: {} tokens{}\n", file.prefix(), name(file.type()), file.has_modes() ? ", with modes" : "");
  fmt::print("  documents  {}\n", file.documents());
  if (file.sequences() != file.documents()) fmt::print("  sequences  {}\n", file.sequences());
  fmt::print(
      "  tokens     {}, {}\n", file.tokens(),
      format_bytes(static_cast<double>(file.tokens()) * static_cast<double>(token_bytes(file.type()))));
  if (file.documents() > 0) {
    fmt::print("  lengths    {} to {}, median {}, mean {:.1f}\n", summary.shortest, summary.longest,
               summary.median, summary.mean);
  }
  if (file.tokens() > 0) fmt::print("  ids        {} to {}\n", summary.least_id, summary.greatest_id);
  if (summary.empty > 0) fmt::print("  empty      {} documents\n", summary.empty);
  if (file.unused_bytes() > 0) fmt::print("  unused     {} bytes of the .bin\n", file.unused_bytes());
}

std::string sample_text(const std::vector<std::int64_t>& tokens, const tokenizer::Tokenizer* tokenizer) {
  if (tokenizer == nullptr) return fmt::format("{}", fmt::join(tokens, " "));
  const std::vector<tokenizer::Id> ids(tokens.begin(), tokens.end());
  return printable(tokenizer->decode(ids));
}

// The samples' documents, spread evenly: the first of every n-th part.
std::vector<std::int64_t> sampled_documents(const corpus::IndexedFile& file, std::int64_t most) {
  const std::int64_t samples = std::min(most, file.documents());
  std::vector<std::int64_t> documents;
  for (std::int64_t i = 0; i < samples; ++i) {
    documents.push_back(static_cast<std::int64_t>(static_cast<double>(file.documents()) /
                                                  static_cast<double>(samples) * static_cast<double>(i)));
  }
  return documents;
}

void print_samples(const corpus::IndexedFile& file, const InspectOptions& options,
                   const tokenizer::Tokenizer* tokenizer) {
  for (const std::int64_t document : sampled_documents(file, options.samples)) {
    const std::int64_t length = document_length(file, document);
    const auto tokens = document_tokens(file, document, options.length);
    fmt::print("\ndocument {}, {} tokens{}:\n{}\n", document, length,
               length > options.length ? fmt::format(", the first {}", options.length) : "",
               sample_text(tokens, tokenizer));
  }
}

Json to_json(const corpus::IndexedFile& file, const corpus::Summary& summary, const InspectOptions& options,
             const tokenizer::Tokenizer* tokenizer) {
  Json json = {{"file", file.prefix()},
               {"type", name(file.type())},
               {"documents", file.documents()},
               {"sequences", file.sequences()},
               {"tokens", file.tokens()},
               {"lengths",
                {{"shortest", summary.shortest},
                 {"longest", summary.longest},
                 {"median", summary.median},
                 {"mean", summary.mean}}},
               {"ids", {{"least", summary.least_id}, {"greatest", summary.greatest_id}}},
               {"empty_documents", summary.empty},
               {"samples", Json::array()}};
  for (const std::int64_t document : sampled_documents(file, options.samples)) {
    const auto tokens = document_tokens(file, document, options.length);
    Json& sample = json["samples"].emplace_back();
    sample = {{"document", document}, {"length", document_length(file, document)}, {"ids", tokens}};
    if (tokenizer != nullptr) sample["text"] = sample_text(tokens, tokenizer);
  }
  return json;
}

void inspect_file(const InspectOptions& options) {
  std::unique_ptr<tokenizer::Tokenizer> tokenizer;
  if (!options.tokenizer.empty()) tokenizer = tokenizer::load_tokenizer(options.tokenizer);
  const corpus::IndexedFile file(options.file);
  const corpus::Summary summary = summarize(file);
  if (tokenizer && (summary.least_id < 0 || summary.greatest_id >= tokenizer->vocab_size())) {
    fail_input("'{}' has ids from {} to {}, but --tokenizer '{}' has only those below {}", file.prefix(),
               summary.least_id, summary.greatest_id, options.tokenizer, tokenizer->vocab_size());
  }
  if (options.json) return print_json(to_json(file, summary, options, tokenizer.get()));
  print_summary(file, summary);
  print_samples(file, options, tokenizer.get());
}

}  // namespace

void add_prepare(CLI::App& command, int&) {
  auto options = std::make_shared<PrepareOptions>();
  auto split = std::make_shared<std::string>("files");
  auto no_end = std::make_shared<bool>(false);
  auto json = std::make_shared<bool>(false);
  command.add_option("inputs", options->inputs, "Files and folders, also compressed (gzip, zstd)")
      ->required();
  command.add_option("--tokenizer", options->tokenizer, "A folder, a file, or bytes")->required();
  command.option_defaults()->always_capture_default();  // the help shows them
  command
      .add_option("--out", options->out,
                  "Prefix of the files to write: PREFIX-train.bin and .idx, PREFIX-validation...")
      ->required();
  command.add_option("--format", options->format, "auto (by file name), text, jsonl or tsv")
      ->check(CLI::IsMember({"auto", "text", "jsonl", "tsv"}));
  command.add_option("--field", options->documents.field, "Field with the text, in jsonl");
  command.add_option(
      "--column", options->documents.column,
      "Column with the text, in tsv: a name in the first line, or a number without such a line");
  command.add_option("--split", *split, "Boundaries of documents in text: files or blank-lines")
      ->check(CLI::IsMember({"files", "blank-lines"}));
  auto* fraction =
      command.add_option("--validation", options->split.fraction, "Fraction of the documents for validation")
          ->check(CLI::Range(0.0, 0.999999));
  command
      .add_option("--validation-every", options->split.every, "Every N-th document for validation instead")
      ->check(CLI::Range(2, 1'000'000'000))
      ->default_str("")
      ->excludes(fraction);
  command.add_option("--seed", options->split.seed, "Seed of the choice of validation documents");
  command.add_flag("--no-eot", *no_end, "Append no end-of-text token to documents");
  command.add_option("--eot", options->end_of_text_token, "End-of-text token (default: the tokenizer's)");
  command.add_option("--workers", options->workers, "Encoder threads; 0: one per core")
      ->check(CLI::Range(0, 32));
  command
      .add_option("--save-every", options->save_seconds,
                  "Seconds between saved positions, from which an interrupted run resumes")
      ->check(CLI::Range(0.0, 1e6));
  command.add_flag("--restart", options->restart, "Discard the files of an interrupted run");
  command.add_flag("--json", *json, "Print PREFIX.json instead of text");
  command.callback([options, split, no_end, json] {
    options->documents.blank_lines = *split == "blank-lines";
    options->end_of_text = !*no_end;
    prepare_corpus(*options, *json);
  });
}

void add_inspect(CLI::App& command, int&) {
  auto options = std::make_shared<InspectOptions>();
  command.add_option("file", options->file, "A token file: its .idx, its .bin, or their common prefix")
      ->required();
  command.add_option("--tokenizer", options->tokenizer,
                     "Tokenizer to decode samples with: a folder, a file, or bytes");
  command.add_option("--samples", options->samples, "Number of sample documents")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  command.add_option("--length", options->length, "Tokens per sample")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  add_json_flag(command, options->json);
  command.callback([options] { inspect_file(*options); });
}

}  // namespace twobw::cli
