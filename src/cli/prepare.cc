// twobw prepare: text to token files.
#include "corpus/prepare.h"

#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/text.h"
#include "cli/commands.h"

namespace twobw::cli {
namespace {

using corpus::PrepareOptions;
using corpus::PrepareProgress;
using corpus::PrepareResult;

// One line on the terminal, drawn over again a few times a second. Elsewhere nothing.
class ProgressBar {
 public:
  ~ProgressBar() {
    if (drawn_) fmt::print(stderr, "\r\x1B[K");
  }

  void show(const PrepareProgress& progress) {
    const Clock::time_point now = Clock::now();
    if (isatty(STDERR_FILENO) == 0 || now - shown_ < std::chrono::milliseconds(100)) return;
    shown_ = now;
    drawn_ = true;
    if (first_bytes_ < 0) first_bytes_ = progress.bytes;
    fmt::print(stderr, "\r\x1B[K{}", line(progress, now));
  }

 private:
  using Clock = std::chrono::steady_clock;

  std::string line(const PrepareProgress& progress, Clock::time_point now) const {
    constexpr int kWidth = 24;
    const double total = static_cast<double>(std::max<std::int64_t>(progress.total_bytes, 1));
    const double part = std::min(static_cast<double>(progress.bytes) / total, 1.0);
    const std::string bar(static_cast<std::size_t>(part * kWidth), '=');
    // What an interrupted run had done says nothing of the speed of this one.
    const double seconds = std::chrono::duration<double>(now - begin_).count();
    const double speed = static_cast<double>(progress.bytes - first_bytes_) / std::max(seconds, 1e-3);
    const double left = static_cast<double>(progress.total_bytes - progress.bytes) / std::max(speed, 1.0);
    return fmt::format("[{:<{}}] {:3.0f}%  {} documents, {} tokens, {}/s, {} left", bar, kWidth, part * 100,
                       format_count(static_cast<double>(progress.documents)),
                       format_count(static_cast<double>(progress.tokens)), format_bytes(speed),
                       speed > 0 ? format_duration(left) : "?");
  }

  Clock::time_point begin_ = Clock::now(), shown_ = begin_;
  std::int64_t first_bytes_ = -1;
  bool drawn_ = false;
};

void print_counts(const std::string& prefix, const corpus::WritePosition& counts) {
  fmt::print("  {:<40}  {} documents, {} tokens\n", prefix + ".bin, .idx", counts.documents, counts.tokens);
}

void print_result(const PrepareOptions& options, const PrepareResult& result, double seconds) {
  fmt::print("{} in {} files as {} tokens in {}\n", format_bytes(static_cast<double>(result.bytes)),
             result.inputs, name(result.type), format_duration(seconds));
  if (result.inputs_before > 0) {
    fmt::print("  went on after {} files that an interrupted run had finished\n", result.inputs_before);
  }
  print_counts(options.out + "-train", result.train);
  if (result.validation) print_counts(options.out + "-validation", *result.validation);
  if (result.empty > 0) fmt::print("  left out {} documents without text\n", result.empty);
  if (options.end_of_text && !result.end_of_text) {
    fmt::print("  no end-of-text tokens: '{}' has none; only the index tells documents apart\n",
               options.tokenizer);
  }
  if (result.validation && (result.validation->documents == 0 || result.train.documents == 0)) {
    fmt::print("  too few documents for two sets: one of them is empty\n");
  }
}

// Blocks of a long line go back to the system when they are freed. By default glibc keeps them for each
// thread, up to 32 MiB apiece.
void return_large_blocks() {
#if defined(__GLIBC__)
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
#endif
}

void prepare_corpus(const PrepareOptions& options) {
  return_large_blocks();
  const auto begin = std::chrono::steady_clock::now();
  PrepareResult result;
  {
    ProgressBar bar;
    result = corpus::prepare(options, [&bar](const PrepareProgress& progress) { bar.show(progress); });
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  print_result(options, result, seconds.count());
}

}  // namespace

void add_prepare(CLI::App& command, int&) {
  auto options = std::make_shared<PrepareOptions>();
  auto split = std::make_shared<std::string>("files");
  auto no_end = std::make_shared<bool>(false);
  command.add_option("inputs", options->inputs, "Files and folders; gzip and zstd are unpacked")->required();
  command.add_option("--tokenizer", options->tokenizer, "A folder, a file, or bytes")->required();
  command.add_option("--out", options->out, "The beginning of the names of the files to make")->required();
  command.add_option("--format", options->format, "auto (by the file's name), text, jsonl or tsv")
      ->check(CLI::IsMember({"auto", "text", "jsonl", "tsv"}))
      ->capture_default_str();
  command.add_option("--field", options->documents.field, "The field with the text, of jsonl")
      ->capture_default_str();
  command
      .add_option(
          "--column", options->documents.column,
          "The column with the text, of tsv: a name in the first line, or a number where there is none")
      ->capture_default_str();
  command.add_option("--split", *split, "Documents of text: files, or what lies between blank-lines")
      ->check(CLI::IsMember({"files", "blank-lines"}))
      ->capture_default_str();
  auto* fraction =
      command.add_option("--validation", options->split.fraction, "The part of the documents for validation")
          ->check(CLI::Range(0.0, 0.999999))
          ->capture_default_str();
  command
      .add_option("--validation-every", options->split.every,
                  "Take every N-th document for validation instead")
      ->check(CLI::Range(2, 1'000'000'000))
      ->excludes(fraction);
  command.add_option("--seed", options->split.seed, "Chooses the documents for validation")
      ->capture_default_str();
  command.add_flag("--no-eot", *no_end, "Append no end-of-text token to documents");
  command.add_option("--eot", options->end_of_text_token,
                     "Another end-of-text token than the tokenizer's own");
  command.add_option("--workers", options->workers, "Threads that encode; 0: one for each core")
      ->check(CLI::Range(0, 32))
      ->capture_default_str();
  command.add_option("--save-every", options->save_seconds, "Seconds after which finished inputs are noted")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  command.add_flag("--restart", options->restart, "Drop what an interrupted run left");
  command.callback([options, split, no_end] {
    options->documents.blank_lines = *split == "blank-lines";
    options->end_of_text = !*no_end;
    prepare_corpus(*options);
  });
}

}  // namespace twobw::cli
